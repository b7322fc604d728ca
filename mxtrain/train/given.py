"""What `--train` and `--val` name: .rec files, or a function that returns a Gluon Dataset or DataLoader."""

from __future__ import annotations

import os
from typing import Any

from mxtrain import names, runtime
from mxtrain.config import Run
from mxtrain.data.given import GivenBatches, GivenDataset, is_data_loader
from mxtrain.data.sets import open_set
from mxtrain.errors import UsageError
from mxtrain.kv import cluster


def open_source(flag: str, source: str, run: Run) -> Any:
    """The records, or batches, that a flag names; files are looked at without mxnet."""
    return _open_given(flag, source, run) if names.is_path(source) else open_set(source)


def _open_given(flag: str, path: str, run: Run) -> Any:
    """What the function returns, as records or batches; its module is imported after mxnet, as the door wants it."""
    runtime.load(cluster.workers_here(os.environ, run), run.layout.threads or None)
    given = names.load_path(flag, path)()
    if not is_data_loader(given):
        if not (hasattr(given, "__getitem__") and hasattr(given, "__len__")):
            raise UsageError(
                f"{flag} {path}: returned {type(given).__name__}; return a Dataset or a DataLoader"
            )
        if run.data.cache == "disk":
            raise UsageError(f"{flag} {path}: cannot tell when its pictures change; give --cache ram or none")
        return GivenDataset(path, given)
    if flag != "--train":
        raise UsageError(
            f"{flag} {path}: returned a DataLoader; return a Dataset, so that each sample counts once"
        )
    if run.layout.num_workers > 1:
        raise UsageError(
            f"{flag} {path}: returned a DataLoader, from which every worker would draw by itself; return a Dataset"
        )
    if run.data.sampling != "once" or run.data.cache != "none" or run.optim.overfit:
        raise UsageError(
            f"{flag} {path}: returned a DataLoader, which knows no --sampling, --cache and --overfit; leave them out"
        )
    if not run.data.num_classes:
        raise UsageError(
            f"{flag} {path}: returned a DataLoader, whose labels are not known; give --num-classes"
        )
    return GivenBatches(path, given, run.optim.batch_size)
