"""Searching from a Python program: `tune(Run.of(...), {"lr": [0.01, 0.1]})`. Imported through `mxtrain.tune`."""

from __future__ import annotations

import math
import threading
from pathlib import Path
from typing import Any, Mapping, NamedTuple

from mxtrain import config
from mxtrain.config import Run, program_objects
from mxtrain.core.errors import UsageError
from mxtrain.launch import attempt
from mxtrain.tune import __main__ as command
from mxtrain.tune import space as spaces


class Search(NamedTuple):
    """Outcome of a search.

    Attributes:
        best: the run of the best trial, for `fit`, with a folder of its own; None where no trial has a value.
        value: the score of the best trial.
        trials: a dict for each trial, as the rows of trials.csv.
        out: the folder of the search.
    """

    best: Run | None
    value: float | None
    trials: list[dict[str, Any]]
    out: Path


def tune(
    run: Run,
    space: Mapping[str, Any] | str | Path,
    *,
    trials: int | None = None,
    sampler: str = "tpe",
    pruner: str = "median",
    jobs: int = 1,
    timeout: float | None = None,
    seed: int = 0,
    quiet: bool = False,
) -> Search:
    """Search the best values of flags by training with many, and return a `Search`.

    The same call goes on with a search that is in the folder, as the command does.

    Args:
        run: what all trials have in common; its `out` is the folder of the search. Each trial is a process of its own,
            so nets, losses and data are names: `module:callable`, no objects.
        space: the values to try: a dict as space.yaml has it, or the path of such a file.
        trials: how many; left out: 20, with sampler "grid" all its points.
        sampler: "tpe", "grid" or "random".
        pruner: which trials end early: "median", "hyperband" or "none".
        jobs: trials at once, which divide the cores.
        timeout: seconds after which the search stops, with checkpoints.
        seed: of what is drawn.
        quiet: nothing on stderr.

    Raises:
        UsageError, DataError: as the command says them, see `mxtrain.core.errors`.
        KeyboardInterrupt: on Ctrl-C, once the trials have stopped with checkpoints.
    """
    command.check_installed()
    from mxtrain.tune import run_search

    _refuse_objects(run)
    base = run_search.base_of(run)
    if isinstance(space, Mapping):
        parsed_space = spaces.parse(_as_yaml(space), "space", base)
    else:
        parsed_space = spaces.read(Path(space), base)
    for name, value, known in (("sampler", sampler, command.SAMPLERS), ("pruner", pruner, command.PRUNERS)):
        if value not in known:
            raise UsageError(f"{name}={value}: give one of {', '.join(known)}")
    for name, count in (("trials", 1 if trials is None else trials), ("jobs", jobs)):
        if count < 1:
            raise UsageError(f"{name}={count}: give 1 or more")
    seconds = math.inf if timeout is None else timeout
    options = run_search.SearchOptions(trials, sampler, pruner, jobs, seconds, seed, quiet)
    if threading.current_thread() is not threading.main_thread():
        ended = run_search.run_search(base, parsed_space, options, attempt.StopRequests())
    else:
        with attempt.stop_requests() as requests:
            ended = run_search.run_search(base, parsed_space, options, requests)
        if requests.signals:
            raise KeyboardInterrupt("stopped; the same call goes on")
    if ended.without_page:
        raise ended.without_page
    best = ended.best
    return Search(ended.config, None if best is None else best.value, ended.rows, Path(base.output.out))


def _refuse_objects(run: Run) -> None:
    for name, value in config.to_flat(run).items():
        names = program_objects.split_names(value) if isinstance(value, str) else []
        if any(map(program_objects.is_object, names)):
            raise UsageError(f"{name}: is an object, which no other process has; give it as module:callable")


def _as_yaml(space: Mapping[str, Any]) -> str:
    import yaml

    try:
        return str(yaml.safe_dump(dict(space), sort_keys=False))
    except yaml.YAMLError:
        raise UsageError("space: has something else than text, numbers, lists and dicts in it") from None
