"""A worker's description of itself for the rendezvous: what must be equal on all workers, and what its disk holds.

Owns which flags and files the workers of one run must agree on. Does not own the comparison
(`cluster/admission/rendezvous.py`).
"""

from __future__ import annotations

import contextlib
import os
import uuid
from pathlib import Path
from typing import Any

from mxtrain import config
from mxtrain.checkpoint import directory, numeric_environment
from mxtrain.checkpoint.input_identity import InputIdentity
from mxtrain.config import Run, schema
from mxtrain.core import durable
from mxtrain.core.errors import Stop
from mxtrain.core.system import machine, wheels
from mxtrain.data import fingerprint
from mxtrain.data.interfaces import Dataset

# Flags that each worker may have its own way: where its files are, how it makes its batches.
OWN_FLAGS = {
    *("train", "val", "out", "cache", "cache_dir", "loader", "loader_workers", "prefetch_mb", "threads"),
    *("pretrained", "teacher", "amp_table", "log", "log_level", "max_restarts", "num_workers", "min_workers"),
    *("start_timeout", "mirror", "storage_cache", "storage_cache_mb", "storage_patience"),
}
FOLDER_ID = ".folder"


def collect(run: Run, train: Dataset, val: Dataset | None, identity: InputIdentity) -> dict[str, Any]:
    """Return the fields of NodeInfo that describe this worker.

    `train` and `val` are the open data sets; every host that reads the same inputs has the same `identity`.
    """
    out = Path(run.output.out)
    flags = {**common_flags(run), "amp_table": identity.amp_table}  # wherever each has the file
    sets = {
        "train": fingerprint.short(train, identity.training_set or {}),
        "val": val and fingerprint.short(val, identity.validation_set or {}),
    }
    checkpoints = _checkpoints(run.output)
    return {
        "versions": wheels.versions(),
        "config": flags,
        "data": {**sets, "pretrained": identity.pretrained, "teacher": identity.teacher},
        "folder": _folder_id(out),
        "checkpoints": list(checkpoints),
        "savers": list(checkpoints.values()),
        "kernels": numeric_environment.kernels_used(),
        "threads": run.layout.threads or machine.threads_of_variable(),
        "cores": machine.usable_cores(),
    }


def explicit_flags(run: Run) -> dict[str, Any]:
    """Return those of the common flags that this process was given, be it as a default: a server needs none."""
    meant = schema.changed(run) | run.explicit
    return {name: value for name, value in common_flags(run).items() if name in meant}


def common_flags(run: Run) -> dict[str, Any]:
    """Return the flags that all processes of a job are given alike."""
    return {name: value for name, value in config.to_flat(run).items() if name not in OWN_FLAGS}


def _checkpoints(output: config.Output) -> dict[int, str]:
    """Return the steps of the complete checkpoints, each with the job that wrote it."""
    try:
        return directory.intact_steps(Path(output.out) / "checkpoints")
    except Stop:
        if output.resume == "auto":
            raise
        return {}  # a --resume that names its start needs none of them


def _folder_id(out: Path) -> str:
    """Return a random name that stays in the folder: processes that read the same one share its disk."""
    path = out / FOLDER_ID
    aside = out / f"{FOLDER_ID}-{uuid.uuid4().hex}"
    with durable.writing(path):
        if not path.exists():
            aside.write_text(uuid.uuid4().hex, encoding="utf-8")
            with contextlib.suppress(FileExistsError):
                os.link(
                    aside, path
                )  # unlike a rename it never replaces the name that another worker wrote first
            aside.unlink()
        return path.read_text(encoding="utf-8")
