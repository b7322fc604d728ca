"""Opens what `--train` and `--val` name: .rec files, tables and files of arrays, or the user's own.

That is a function which returns a Gluon Dataset or DataLoader, or an object that a Python program gave.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from mxtrain import runtime
from mxtrain.cluster import environment
from mxtrain.config import Model, Run, given, import_path
from mxtrain.core.errors import DataError, UsageError, in_user_code
from mxtrain.data import columns, tables
from mxtrain.data.record_sets import open_set
from mxtrain.data.user_datasets import UserBatches, UserDataset, is_data_loader
from mxtrain.tasks import find as tasks


def open_source(flag: str, source: str, run: Run) -> Any:
    """Return the samples, or the user's batches, that `flag` names as `source`.

    Loads no mxnet by itself, but the module of a user's data set may (docs/adr/0014).
    """
    if import_path.is_import_path(source):
        return _open_user_data(flag, source, run)
    is_table = Path(source).suffix.lower() in tables.SUFFIXES
    opened = tables.open_records(Path(source), run.data.target) if is_table else open_set(source)
    return tasks.class_of(run).samples_of(run, opened)


def _open_user_data(flag: str, path: str, run: Run) -> Any:
    """Call the function and return its data as records or batches."""
    runtime.set_shares(environment.workers_on_host(os.environ, run), run.layout.threads or None)
    if given.is_object(path):
        return _checked(flag, path, columns.dataset_of(given.require(flag, path), f"{flag} {path}"), run)
    with in_user_code(f"{flag} {path}"):
        return _checked(flag, path, import_path.load_callable(flag, path)(), run)


def _checked(flag: str, path: str, user_data: Any, run: Run) -> Any:
    """Return what the function gave as records or batches; UsageError or DataError where no run can be made of it."""
    if is_data_loader(user_data):
        return _batches(flag, path, user_data, run)
    if not (hasattr(user_data, "__getitem__") and hasattr(user_data, "__len__")):
        raise UsageError(
            f"{flag} {path}: returned {type(user_data).__name__}; return a Dataset or a DataLoader"
        )
    if not len(user_data):
        raise DataError(f"{flag} {path}: returned a Dataset of no samples; there is nothing to learn from")
    if run.data.cache == "disk":
        raise UsageError(f"{flag} {path}: cannot tell when its pictures change; give --cache ram or none")
    return UserDataset(path, user_data, flag, tasks.class_of(run).record_of)


def _batches(flag: str, path: str, user_data: Any, run: Run) -> UserBatches:
    """Return the batches of a DataLoader; refuse flags and data that do not go with one."""
    if flag != "--train":
        raise UsageError(
            f"{flag} {path}: returned a DataLoader; return a Dataset, so that each sample counts once"
        )
    if not hasattr(user_data, "__len__"):
        raise UsageError(
            f"{flag} {path}: returned a {type(user_data).__name__}, which has no len(); return a DataLoader, or what "
            "has a len() and can be iterated once an epoch"
        )
    if not len(user_data):
        raise DataError(
            f"{flag} {path}: returned a DataLoader of no batches; give it at least --batch-size "
            f"{run.optim.batch_size} samples, or lower that"
        )
    if run.layout.num_workers > 1:
        raise UsageError(
            f"{flag} {path}: returned a DataLoader, from which every worker would draw by itself; return a Dataset"
        )
    without_effect = _without_effect(run)
    if without_effect:
        raise UsageError(
            f"{flag} {path}: returned a DataLoader, which knows no {' and '.join(without_effect)}; leave that out"
        )
    if "num_classes" in tasks.class_of(run).flags and not run.data.num_classes:
        raise UsageError(
            f"{flag} {path}: returned a DataLoader, whose labels are not known; give --num-classes"
        )
    return UserBatches(path, user_data, run.optim.batch_size)


def _without_effect(run: Run) -> list[str]:
    """Return the flags that change nothing where a DataLoader makes the batches; some still concern --val."""
    data, default = run.data, Run(model=Model(task=run.model.task)).data
    for_both = {
        "--sampling": data.sampling != default.sampling,
        "--cache": data.cache != default.cache,
        "--augment": data.augment not in (default.augment, "none"),
        "--overfit": bool(run.optim.overfit),
    }
    for_train = {
        "--verify": data.verify != default.verify,
        "--skip-bad": data.skip_bad != default.skip_bad,
        "--normalize": data.normalize != default.normalize,
    }
    found = {**for_both, **({} if data.val else for_train)}
    return [flag for flag, is_given in found.items() if is_given]
