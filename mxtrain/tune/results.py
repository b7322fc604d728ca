"""The results of a search: a row for each trial, as a table and as OUT/trials.csv, and the best as OUT/best.yaml."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any, Sequence

import optuna
from optuna.trial import FrozenTrial

from mxtrain import config
from mxtrain.checkpoint import locations
from mxtrain.config import Run
from mxtrain.core import durable
from mxtrain.tasks.task import Score
from mxtrain.tune import study as studies
from mxtrain.tune.space import Space, run_of

MOST_SHOWN = 10  # in the table


def rows(study: optuna.Study, space: Space, score: Score) -> list[dict[str, Any]]:
    """Return what is known of each trial, in their order: outcome, value, flags; empty where a flag does not count."""
    flags = list(dict.fromkeys(parameter.flag for parameter in space))
    return [
        {
            "trial": trial.number,
            "outcome": trial.user_attrs.get("outcome", "under way"),
            f"val_{score.name}": trial.user_attrs.get("best"),
            "step": trial.user_attrs.get("best_step"),
            "evaluations": len(trial.intermediate_values),
            "seconds": trial.user_attrs.get("seconds"),
            **dict.fromkeys(flags, ""),
            **studies.flags_of(trial, space),
            "reason": trial.user_attrs.get("reason", ""),
        }
        for trial in study.get_trials(deepcopy=False)
    ]


def table(trials: Sequence[dict[str, Any]], score: Score) -> str:
    """Return the best rows, best first, as aligned columns, and how many there are of the others."""
    value = f"val_{score.name}"
    done = [row for row in trials if row["outcome"] == "done"]
    done.sort(key=lambda row: row[value] if score.is_lower_better else -row[value])
    shown = [
        name for name in (trials[0] if trials else {}) if name not in ("outcome", "evaluations", "reason")
    ]
    lines = [shown, *([_cell(row[name]) for name in shown] for row in done[:MOST_SHOWN])]
    widths = [max(len(line[at]) for line in lines) for at in range(len(shown))]
    text = (
        ["  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in lines] if done else []
    )
    outcomes = [row["outcome"] for row in trials]
    counts = [f"{outcomes.count(each)} {each}" for each in dict.fromkeys(outcomes)]
    best = f"; the best {MOST_SHOWN} of them above" if len(done) > MOST_SHOWN else ""
    return "\n".join([*text, f"{len(trials)} trials: {', '.join(counts)}{best}"])


def write_csv(path: Path, trials: Sequence[dict[str, Any]]) -> None:
    """Write the rows as a table for spreadsheets and data frames."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(trials[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(trials)
    with durable.writing(path):
        durable.replace(path, text.getvalue())


def write_best(out: Path, base: Run, space: Space, best: FrozenTrial, score: Score) -> None:
    """Write the whole config of the best trial, for `fit --config`; its run folder is a new one, OUT/best."""
    best_value, best_step = (best.user_attrs[key] for key in ("best", "best_step"))
    flags = studies.flags_of(best, space)
    lines = [
        f"# Trial {best.number} of a search: val_{score.name} {best_value:.6g} at step {best_step}, in",
        f"# {_one_line(str(out / 'trials' / f'{best.number:04d}'))}. It was chosen among trials by that very number,",
        "# which is better than other seeds and other data will be (docs/tuning.md).",
        *(f"# searched: {name}: {_one_line(_cell(value))}" for name, value in flags.items()),
    ]
    path = out / "best.yaml"
    with durable.writing(path):
        durable.replace(path, "\n".join(lines) + "\n" + config.to_yaml(best_run(out, base, space, best)))


def best_run(out: Path, base: Run, space: Space, best: FrozenTrial) -> Run:
    """Return the run of the best trial, in a folder of its own."""
    flags = studies.flags_of(best, space)
    return locations.absolute(run_of(base, {**flags, "out": str(out / "best"), "resume": "auto"}))


def in_words(flags: dict[str, Any]) -> str:
    """Return the flags of a trial as a line tells them."""
    return ", ".join(f"{name} {_cell(value)}" for name, value in flags.items())


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _one_line(text: str) -> str:
    return " ".join(text.split())
