"""The loop of a search: trials drawn, run beside each other, ended early or tried again, and told to the study.

Owns what happens to a trial from its start to its end. What is drawn is `study.py`'s, a trial's process
`trial_process.py`'s. A trial that was under way when a search ended is the first that the next one takes up.
"""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any, Callable, NamedTuple

import optuna
from optuna.trial import FrozenTrial, TrialState

from mxtrain.config import Run
from mxtrain.core.errors import DATA, USAGE, DataError, Stop, UsageError
from mxtrain.core.system import machine
from mxtrain.data.loading import run_plan
from mxtrain.launch.attempt import GracePeriods, StopRequests
from mxtrain.tasks.task import Score
from mxtrain.train.library.result import best_of
from mxtrain.tune import study as studies
from mxtrain.tune import trial_process
from mxtrain.tune.space import Flags, Space, run_of
from mxtrain.tune.trial_process import Meaning, TrialProcess

POLL_SECONDS = 0.05
MOST_TRIES = 3  # in a row without a later step in between
PRUNED = "pruned"
OnEnd = Callable[[FrozenTrial], None]
ERRORS: dict[int, type[Stop]] = {USAGE: UsageError, DATA: DataError}


class Plan(NamedTuple):
    """The description of a search: where, among what, how many trials."""

    out: Path
    base: Run
    space: Space
    score: Score
    draw: studies.Draw
    num_trials: int
    jobs: int
    timeout_seconds: float  # no end: math.inf
    num_samples: int  # of an epoch


@dataclasses.dataclass
class UnderWay:
    """A trial whose run is under way."""

    trial: optuna.Trial
    flags: Flags
    place: int  # among those at once
    process: TrialProcess
    num_reported: int = 0  # evaluations
    is_pruned: bool = False
    num_tries: int = 1
    last_step: int = 0  # when it was started
    num_steps: int = 0  # of the whole run: its last evaluation ends nothing early


def folder_of(out: Path, number: int) -> Path:
    """Return the run folder of a trial."""
    return out / "trials" / f"{number:04d}"


def search(plan: Plan, study: optuna.Study, requests: StopRequests, on_end: OnEnd) -> None:
    """Run trials until there are as many as planned, or a stop request or the timeout comes.

    `on_end` is called with each trial when it has ended. Raises a Stop where going on would fail in the same way.
    """
    _Search(plan, study, requests, on_end).run()


class _Search:
    def __init__(self, plan: Plan, study: optuna.Study, requests: StopRequests, on_end: OnEnd):
        self._plan, self._study, self._requests, self._on_end = plan, study, requests, on_end
        self._left_over = studies.unfinished(study)
        self._running: list[UnderWay] = []
        self._failure: Stop | None = None
        self._deadline = time.monotonic() + plan.timeout_seconds
        # One that hangs is noticed after --stall-timeout; until then one that stops may be writing.
        self._grace_seconds = plan.base.layout.stall_timeout + GracePeriods.death_seconds

    def run(self) -> None:
        try:
            while True:
                for each in list(self._running):
                    self._advance(each)
                if self._is_ending():
                    self._stop_all()
                else:
                    self._start_more()
                if not self._running:
                    break
                time.sleep(POLL_SECONDS)
        finally:
            for each in self._running:
                each.process.end()
        if self._failure is not None:
            raise self._failure

    def _is_ending(self) -> bool:
        return bool(self._failure is not None or self._requests.signals or time.monotonic() > self._deadline)

    def _stop_all(self) -> None:
        """Stop what runs, after a checkpoint; on a second signal at once."""
        seconds = self._grace_seconds if len(self._requests.signals) < 2 else 0.0
        for each in self._running:
            each.process.stop(seconds)

    def _start_more(self) -> None:
        plan = self._plan
        while len(self._running) < plan.jobs and self._failure is None:
            if self._left_over:
                trial = optuna.trial.Trial(self._study, self._left_over.pop(0)._trial_id)
            elif len(self._study.get_trials(deepcopy=False)) < plan.num_trials:
                trial = self._study.ask()
            else:
                return
            self._begin(trial)

    def _begin(self, trial: optuna.Trial) -> None:
        """Start the run of a trial, which may have been under way before."""
        plan, study = self._plan, self._study
        flags = plan.draw(study, trial)
        if self._reuses_value(trial, flags):
            return
        if "threads" not in trial.user_attrs:  # a resumed run keeps its own, on which last bits depend
            trial.set_user_attr("threads", machine.openmp_threads(plan.base.layout.threads, plan.jobs))
        place = min({*range(plan.jobs)} - {each.place for each in self._running})
        folder = folder_of(plan.out, trial.number)
        own = {"out": str(folder), "resume": "auto", "threads": trial.user_attrs["threads"]}
        run = run_of(plan.base, {**flags, **own})
        trial_process.prepare(folder, run)
        process = TrialProcess(folder, trial_process.share(place, plan.jobs))
        frozen = study.get_trials(deepcopy=False)[trial.number]
        begun = UnderWay(trial, flags, place, process, len(frozen.intermediate_values))
        begun.is_pruned = trial.user_attrs.get("outcome") == PRUNED
        begun.last_step = process.last_step()
        begun.num_steps = run_plan.run_length(run.optim, plan.num_samples).num_steps
        for record in process.evaluations()[begun.num_reported - 1 : begun.num_reported]:
            begun.is_pruned |= self._is_to_end(begun, record)  # asked already, if not answered before a kill
        if not begun.is_pruned:
            self._report(begun)
        if begun.is_pruned:
            self._record(begun, TrialState.PRUNED, PRUNED)
        else:
            process.start()
            self._running.append(begun)

    def _reuses_value(self, trial: optuna.Trial, flags: Flags) -> bool:
        """Tell the value of an earlier trial with the same flags, if there is one: its run would be the same."""
        trials = self._study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        same = [each for each in trials if studies.flags_of(each, self._plan.space) == flags]
        for other in same[:1]:
            number = other.user_attrs.get("same_as", other.number)
            attributes = {
                **other.user_attrs,
                "same_as": number,
                "reason": f"the same as trial {number}",
                "seconds": 0.0,
            }
            for name, value in attributes.items():
                trial.set_user_attr(name, value)
            self._on_end(self._study.tell(trial, other.value))
        return bool(same)

    def _advance(self, running: UnderWay) -> None:
        """Report what a run has evaluated since, end it early if the pruner says so, and see to its end."""
        code = running.process.poll()  # first: what it has recorded before its end is read then
        if not running.is_pruned:
            self._report(running)
            if running.is_pruned:
                running.process.stop(self._grace_seconds)
        if code is None:
            return
        self._running.remove(running)
        if running.is_pruned:
            self._record(running, TrialState.PRUNED, PRUNED)
        else:
            self._ended(running, code)

    def _report(self, running: UnderWay) -> None:
        """Report evaluations one by one, so that what the pruner says depends on no clock."""
        key = f"val_{self._plan.score.name}"
        for number, record in enumerate(running.process.evaluations(), start=1):
            if number > running.num_reported and record.get(key) is not None:
                running.num_reported = number
                running.trial.report(record[key], number)
                if self._is_to_end(running, record):
                    running.is_pruned = True
                    running.trial.set_user_attr("outcome", PRUNED)
                    return

    def _is_to_end(self, running: UnderWay, record: dict[str, Any]) -> bool:
        return record["step"] < running.num_steps and running.trial.should_prune()

    def _ended(self, running: UnderWay, code: int) -> None:
        message, last_step = running.process.message(), running.process.last_step()
        meaning = trial_process.meaning_of(code, message, last_step > 0)
        if meaning is Meaning.DONE:
            if running.num_reported:
                self._record(running, TrialState.COMPLETE, "done")
            elif running.process.evaluations():
                self._record(
                    running, TrialState.FAIL, "failed", f"its {self._plan.score.name} was never finite"
                )
            else:
                self._failed(running, UsageError, "has evaluated nothing; give it more steps")
        elif (
            meaning is Meaning.DIVERGED
        ):  # optuna takes one that was pruned for worse than those that were not
            self._record(running, TrialState.PRUNED, "diverged", message)
        elif meaning is Meaning.FAILED:
            self._record(running, TrialState.FAIL, "failed", message)
        elif meaning is Meaning.ENDS_SEARCH:
            self._failure = self._failure or ERRORS[code](self._naming(running, message))
        elif meaning is Meaning.REFUSED:
            self._failed(running, UsageError, message)
        elif not self._is_ending():
            self._again(running, code, message, last_step)

    def _again(self, running: UnderWay, code: int, message: str, last_step: int) -> None:
        """Start a run again that was killed or has failed, unless it has too often without coming further."""
        running.num_tries = 1 if last_step > running.last_step else running.num_tries + 1
        running.last_step = last_step
        if running.num_tries <= MOST_TRIES:
            running.process.start()
            self._running.append(running)
        else:
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}: {message}"
            self._failed(running, Stop, f"{how}, {MOST_TRIES} times without coming further")

    def _failed(self, running: UnderWay, error_type: type[Stop], message: str) -> None:
        """Count a trial as failed; where none has come further yet, the search ends with it."""
        if self._study.get_trials(deepcopy=False, states=studies.WITH_VALUE):
            self._record(running, TrialState.FAIL, "failed", message)
        else:
            self._failure = self._failure or error_type(self._naming(running, message))

    def _naming(self, running: UnderWay, message: str) -> str:
        return (
            f"trial {running.trial.number}: {message} (its flags: {running.process.folder / 'config.yaml'})"
        )

    def _record(self, running: UnderWay, state: TrialState, outcome: str, reason: str = "") -> None:
        """Tell the study how a trial has ended, and with which value: that of its best evaluation."""
        score, process = self._plan.score, running.process
        best = best_of(process.evaluations()[: running.num_reported], score)
        attributes = {"outcome": outcome, "reason": reason, "seconds": round(process.seconds(), 3)}
        if best is not None:
            attributes.update(best=best[f"val_{score.name}"], best_step=best["step"])
        for name, value in attributes.items():
            running.trial.set_user_attr(name, value)
        value = best[f"val_{score.name}"] if best is not None and state is TrialState.COMPLETE else None
        self._on_end(self._study.tell(running.trial, value, state=state))
