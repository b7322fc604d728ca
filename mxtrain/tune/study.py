"""The record of a search, OUT/study.db: its trials as optuna keeps them in SQLite, and what is drawn next.

Owns the samplers, the pruners, and knowing a search again. What a trial draws depends on the seed, its number and what
the trials before it found, on nothing that lives in a process: a search that was killed goes on with the same trials.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import warnings
from pathlib import Path
from typing import Any, Callable, Dict, Iterator

import optuna
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from mxtrain.core import formats
from mxtrain.core.errors import DataError, OutOfResources, UsageError
from mxtrain.tune import space as spaces
from mxtrain.tune.space import Flags, Parameter, Space

FILE, NAME, IDENTITY = "study.db", "search", "identity"
FINISHED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)
WITH_VALUE = (TrialState.COMPLETE, TrialState.PRUNED)
MOST_SHOWN = 3  # differences in a message
Identity = Dict[str, Any]
Draw = Callable[[optuna.Study, optuna.Trial], Flags]

optuna.logging.set_verbosity(optuna.logging.ERROR)


def open_study(out: Path, identity: Identity, is_lower_better: bool) -> optuna.Study:
    """Return the search of a folder, or a new one; UsageError where it is another than `identity` says.

    One in which nothing has ended yet makes way for another.
    """
    path = out / FILE
    identity = json.loads(json.dumps(identity))  # as SQLite gives it back
    with naming_file(path):
        study = _open(path, is_lower_better)
        formats.refuse_newer(path, study.user_attrs.get(formats.KEY, 1), formats.SEARCH)
        saved = study.user_attrs.get(IDENTITY, identity)
        if saved != identity and not finished(study):
            optuna.delete_study(study_name=NAME, storage=study._storage)
            study = _open(path, is_lower_better)
        elif saved != identity:
            raise UsageError(
                f"--out {out}: holds another search: {differences(saved, identity)}; give what it began with, or "
                "another --out"
            )
        study.set_user_attr(IDENTITY, identity)
        study.set_user_attr(formats.KEY, formats.SEARCH)
        return study


def _open(path: Path, is_lower_better: bool) -> optuna.Study:
    # Not by its path in the address, where ? and % mean something.
    with sqlite3.connect(str(path)) as connection:
        damage = connection.execute("PRAGMA quick_check").fetchone()[0]
    connection.close()
    if damage != "ok":
        raise sqlite3.DatabaseError(damage)
    connect = {"creator": lambda: sqlite3.connect(str(path), check_same_thread=False)}
    try:
        storage = optuna.storages.RDBStorage("sqlite://", engine_kwargs=connect)
    except RuntimeError as error:  # of a newer optuna
        raise UsageError(f"{path}: {error}") from None
    directions = optuna.study.StudyDirection
    direction = directions.MINIMIZE if is_lower_better else directions.MAXIMIZE
    return optuna.create_study(storage=storage, study_name=NAME, direction=direction, load_if_exists=True)


@contextlib.contextmanager
def naming_file(path: Path) -> Iterator[None]:
    """A block that reads or writes the record: what goes wrong there names its file, and what to do."""
    try:
        yield
    except (sqlite3.Error, SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
        reason = _root(error)
        if any(word in reason for word in ("disk is full", "disk I/O", "readonly", "unable to open")):
            raise OutOfResources(
                f"{path}: cannot be written ({reason}); make room, then the same command goes on"
            ) from None
        raise DataError(
            f"{path}: is damaged, or no record of a search ({reason}); put a copy back, or move it away: the same "
            "command begins the search again, and takes runs in trials/ for done that are the same"
        ) from None


def _root(error: BaseException) -> str:
    """Return what SQLite said, without what was asked of it."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(str(error).split())


def differences(before: Identity, now: Identity) -> str:
    """Return in words how two searches differ."""
    texts = [
        f"{name} was {_shown(before.get(name))} and is {_shown(now.get(name))}"
        for name in dict.fromkeys([*before, *now])
        if before.get(name) != now.get(name)
    ]
    more = f", and {len(texts) - MOST_SHOWN} more" if len(texts) > MOST_SHOWN else ""
    return ", ".join(texts[:MOST_SHOWN]) + more


def _shown(value: Any) -> str:
    return "not given" if value is None else str(value) if not isinstance(value, str) else repr(value)


def finished(study: optuna.Study) -> list[FrozenTrial]:
    """Return the trials that have ended, in their order."""
    return study.get_trials(deepcopy=False, states=FINISHED)


def unfinished(study: optuna.Study) -> list[FrozenTrial]:
    """Return the trials that were under way when the search ended, in their order."""
    return study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))


def best(study: optuna.Study) -> FrozenTrial | None:
    """Return the trial with the best value, of equals the first; None where none has ended well."""
    trials = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    sign = 1 if study.direction == optuna.study.StudyDirection.MINIMIZE else -1
    return min(trials, key=lambda each: (sign * (each.value or 0.0), each.number), default=None)


def flags_of(trial: FrozenTrial, space: Space) -> Flags:
    """Return the flags of a trial; those that are not drawn yet are missing."""
    found: Flags = {}
    for parameter in space:
        if parameter.counts(found) and parameter.name in trial.params:
            found[parameter.flag] = trial.params[parameter.name]
    return found


def drawing(space: Space, sampler: str, seed: int, at_once: int) -> Draw:
    """Return a function that draws the flags of a trial, or after a kill what is missing of them."""
    points = spaces.grid(space) if sampler == "grid" else []

    def draw(study: optuna.Study, trial: optuna.Trial) -> Flags:
        def value(parameter: Parameter) -> Any:
            if sampler == "grid":
                study.sampler = _only({parameter.name: points[trial.number][parameter.flag]})
            else:
                study.sampler = _sampler(sampler, _seed_of(seed, trial.number, parameter.name), at_once > 1)
            return _suggest(trial, parameter)

        return spaces.drawn(space, value)

    return draw


def _suggest(trial: optuna.Trial, parameter: Parameter) -> Any:
    name, low, high, step, log = (
        *(parameter.name, parameter.low, parameter.high),
        *(parameter.step, parameter.log),
    )
    if parameter.choices:
        return trial.suggest_categorical(name, parameter.choices)
    if isinstance(low, int):
        return trial.suggest_int(name, low, high, step=step or 1, log=log)
    return trial.suggest_float(name, low, high, step=step, log=log)


def _only(values: Flags) -> optuna.samplers.BaseSampler:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.samplers.PartialFixedSampler(values, optuna.samplers.RandomSampler(0))


def _sampler(name: str, seed: int, has_neighbours: bool) -> optuna.samplers.BaseSampler:
    if name == "random":
        return optuna.samplers.RandomSampler(seed)
    # Trials under way count as bad ones, so that those beside each other are not the same.
    return optuna.samplers.TPESampler(seed=seed, constant_liar=has_neighbours)


def _seed_of(*parts: object) -> int:
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:4], "big")


def pruner_of(name: str, num_evaluations: int) -> optuna.pruners.BasePruner:
    """Return what ends trials early, of runs with so many evaluations."""
    if name == "median":
        return optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=max(1, num_evaluations // 4))
    if name == "hyperband":
        return optuna.pruners.HyperbandPruner(min_resource=1, max_resource=max(1, num_evaluations))
    return optuna.pruners.NopPruner()
