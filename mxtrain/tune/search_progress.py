"""The signs of a search while it lasts: a line for each trial, and the files in its folder.

Owns when they are written: after each trial the table and the best config, at the end the page too.
"""

from __future__ import annotations

import datetime
import time
from typing import Any, TextIO

import optuna
from optuna.trial import FrozenTrial

from mxtrain.core import durable
from mxtrain.core.errors import UsageError
from mxtrain.report.sinks.progress import ProgressDisplay
from mxtrain.tune import page, results
from mxtrain.tune import study as studies
from mxtrain.tune.search import Plan


class SearchProgress:
    """Tells of a search on `stream`, if there is one, and in its folder; a block that lasts as long as the search."""

    def __init__(self, plan: Plan, study: optuna.Study, stream: TextIO | None):
        self._plan, self._study = plan, study
        self._num_before = len(studies.finished(study))
        self._began = time.monotonic()
        self._display = ProgressDisplay(stream, plan.num_trials, self._num_before, "trial {}", "searching")
        self.without_page: UsageError | None = None  # why there is none, once the block has ended

    def __enter__(self) -> SearchProgress:
        if self._num_before or studies.unfinished(self._study):
            self._display.print_line(
                f"going on: {self._num_before} of {self._plan.num_trials} trials have ended, "
                f"{len(studies.unfinished(self._study))} were under way"
            )
        return self

    def __exit__(self, *error: object) -> None:
        self._display.close()
        if studies.finished(self._study):
            path = self._plan.out / "tune.html"
            try:
                with durable.writing(path):
                    durable.replace(path, page.page(self._plan, self._study))
            except UsageError as refused:  # is told after the table, or after what has ended the search
                self.without_page = refused

    def ended(self, trial: FrozenTrial) -> None:
        """Tell of a trial that has ended."""
        plan, best = self._plan, studies.best(self._study)
        num_ended = len(studies.finished(self._study))
        results.write_csv(plan.out / "trials.csv", self._rows())
        if best is not None and best.number == trial.number:
            results.write_best(plan.out, plan.base, plan.space, best, plan.score)
        texts = [self._of_trial(trial)]
        if best is not None:
            texts.append(f"best {best.value:.4g} of trial {best.number}")
        texts.append(f"{num_ended} of {plan.num_trials}{self._left(num_ended)}")
        self._display.print_line("; ".join(texts))
        beside = [f"best {best.value:.4g}"] if best is not None else []
        self._display.update(num_ended, "searching", beside, every_seconds=float("inf"))

    def text(self) -> str:
        """Return the table of the best trials, and where everything is."""
        out, best = self._plan.out, studies.best(self._study)
        files = [out / name for name in ("best.yaml", "trials.csv", "tune.html") if (out / name).is_file()]
        best_line = (
            f"best val_{self._plan.score.name} {best.value:.6g}, trial {best.number}; " if best else ""
        )
        return f"{results.table(self._rows(), self._plan.score)}\n{best_line}{', '.join(map(str, files))}"

    def _rows(self) -> list[dict[str, Any]]:
        return results.rows(self._study, self._plan.space, self._plan.score)

    def _of_trial(self, trial: FrozenTrial) -> str:
        attributes = trial.user_attrs
        value = f"val_{self._plan.score.name} {attributes['best']:.4g}" if "best" in attributes else ""
        how = "" if attributes["outcome"] == "done" else attributes["outcome"]
        count = len(trial.intermediate_values)
        number = f"after {count} evaluation{'s' if count > 1 else ''}" if how and value else ""
        reason = f": {attributes['reason']}" if attributes["reason"] else ""
        words = " ".join(filter(None, (how, number, "with" if how and value else "", value)))
        flags = results.in_words(studies.flags_of(trial, self._plan.space))
        return f"trial {trial.number} {words}{reason} ({flags})"

    def _left(self, num_ended: int) -> str:
        """Return the time that the trials to come will take at the pace of this process."""
        num_own, remaining = num_ended - self._num_before, self._plan.num_trials - num_ended
        if num_own <= 0 or remaining <= 0:
            return ""
        seconds = (time.monotonic() - self._began) / num_own * remaining
        return f", {datetime.timedelta(seconds=round(seconds))} left"
