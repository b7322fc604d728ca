"""A search from its description to its page: opened, checked, locked, run and told.

Owns the order of these: all that can be refused is refused before the first trial starts.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
from pathlib import Path
from typing import Any, Iterator, NamedTuple

from optuna.trial import FrozenTrial

from mxtrain import config
from mxtrain.checkpoint import locations
from mxtrain.config import Run, schema
from mxtrain.config.checks import bounds, run_checks
from mxtrain.core import folder_lock
from mxtrain.core.errors import UsageError
from mxtrain.data.loading import run_plan
from mxtrain.launch.attempt import StopRequests
from mxtrain.tasks.task import Score
from mxtrain.train import session
from mxtrain.tune import results
from mxtrain.tune import space as spaces
from mxtrain.tune import study as studies
from mxtrain.tune.search import Plan, search
from mxtrain.tune.search_progress import SearchProgress
from mxtrain.tune.space import Flags, Space

NUM_TRIALS = 20
# What may change while a search goes on: trials compute the same with them.
OWN_AFFAIRS = ("out", "resume", "threads", "log", "log_level", "quiet", "dry_run", "plot_schedule")


class SearchOptions(NamedTuple):
    """The way to search, as the command's flags say it; `timeout` in seconds."""

    trials: int | None
    sampler: str
    pruner: str
    jobs: int
    timeout: float
    seed: int
    quiet: bool


class SearchOutcome(NamedTuple):
    """The state of a search that is over or was stopped."""

    best: FrozenTrial | None
    config: Run | None  # of the best
    rows: list[dict[str, Any]]
    text: str  # of the rows, for people
    num_ended: int
    num_trials: int
    without_page: UsageError | None  # why tune.html could not be written


def run_search(base: Run, space: Space, options: SearchOptions, requests: StopRequests) -> SearchOutcome:
    """Search in the folder `--out` of `base` until all trials have ended, or a stop request or the timeout comes."""
    out = Path(base.output.out)
    if (out / "checkpoints").is_dir():
        raise UsageError(
            f"--out {out}: is a run folder; give a folder for the search, in which each trial has its own"
        )
    num_trials = _num_trials(options, space)
    inputs = session.open_inputs(base)
    with _locked(out), studies.naming_file(out / studies.FILE):
        study = studies.open_study(
            out, _identity(options, base, space, inputs.score), inputs.score.is_lower_better
        )
        study.pruner = studies.pruner_of(options.pruner, _num_evaluations(base, len(inputs.train)))
        draw = studies.drawing(space, options.sampler, options.seed, options.jobs)
        limits = num_trials, options.jobs, options.timeout
        plan = Plan(out, base, space, inputs.score, draw, *limits, len(inputs.train))
        with SearchProgress(plan, study, None if options.quiet else sys.stderr) as progress:
            search(plan, study, requests, progress.ended)
        best, rows = studies.best(study), results.rows(study, space, inputs.score)
        best_config = None if best is None else results.best_run(out, base, space, best)
        num_ended = len(studies.finished(study))
        return SearchOutcome(
            best, best_config, rows, progress.text(), num_ended, num_trials, progress.without_page
        )


def base_of(run: Run) -> Run:
    """Return what all trials of a search have in common, checked."""
    base = locations.absolute(run)
    _check_base(base)
    return base


def _check_base(base: Run) -> None:
    bounds.check(base)
    if not (base.data.val or base.optim.overfit):
        raise UsageError("--val is missing in --config: without it a trial has no score")
    for flag, is_set in (("dry_run", base.output.dry_run), ("plot_schedule", base.output.plot_schedule)):
        if is_set:
            raise UsageError(f"--{flag.replace('_', '-')} is fit's; leave it out of a search")
    run_checks.check_description(base)


def _num_trials(options: SearchOptions, space: Space) -> int:
    """Return how many trials there are to be; UsageError where the space has not as many points, or a grid more."""
    trials, points = options.trials, len(spaces.grid(space))
    if options.sampler == "grid":
        endless = spaces.endless(space)
        if endless:
            raise UsageError(
                f"--sampler grid: {endless[0]} has no end of values in --space; give a list or a step"
            )
        if not points:
            raise UsageError(f"--sampler grid: more than {spaces.MOST_POINTS} points in --space")
        if trials is not None and trials < points:
            raise UsageError(
                f"--trials {trials}: the grid has {points} points; give {points} or leave --trials out, or draw "
                "some of them by --sampler random"
            )
        return points
    trials = trials or NUM_TRIALS
    if 0 < points < trials:
        raise UsageError(
            f"--trials {trials}: --space has no more than {points} points; give --sampler grid, which tries each once, "
            "or fewer trials"
        )
    return trials


def _num_evaluations(run: Run, num_samples: int) -> int:
    """Return how many evaluations a run like the base has."""
    steps_per_epoch, num_steps = run_plan.run_length(run.optim, num_samples)
    between = num_steps // run.output.evaluate_steps if run.output.evaluate_steps else 0
    return math.ceil(num_steps / max(1, steps_per_epoch)) + between


def _identity(options: SearchOptions, base: Run, space: Space, score: Score) -> studies.Identity:
    """Return what makes a search this one: values are compared, and drawn, among trials of the same only."""
    meant = schema.changed(base).difference(
        OWN_AFFAIRS
    )  # of those that are left out a later version may have more
    flat = {name: value for name, value in config.to_flat(base).items() if name in meant}
    of_flags: dict[str, list[Flags]] = {f"{parameter.flag} in --space": [] for parameter in space}
    for parameter, kept in zip(space, spaces.as_json(space)):
        of_flags[f"{parameter.flag} in --space"].append(kept)
    searched = {parameter.flag for parameter in space}
    return {
        "--sampler": options.sampler,
        "--seed": options.seed,
        "--pruner": options.pruner,
        "the score": score.name,
        **of_flags,
        **{f"{name} in --config": str(value) for name, value in flat.items() if name not in searched},
    }


@contextlib.contextmanager
def _locked(out: Path) -> Iterator[None]:
    """Keep other searches out of the folder while the block lasts."""
    handle = folder_lock.lock(out, "search")
    try:
        yield
    finally:
        os.close(handle)
