"""What a worker says of itself when a cluster's roll is called: what has to be equal everywhere, and what its disk has.

Owns which flags and files the workers of one run may not differ in. Who compares them is `cluster/rendezvous.py`.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from pathlib import Path
from typing import Any

import mxtrain
from mxtrain import config
from mxtrain.checkpoint import directory
from mxtrain.checkpoint.input_identity import InputIdentity
from mxtrain.config import Run
from mxtrain.core import durable, machine
from mxtrain.core.errors import Stop
from mxtrain.data import fingerprint
from mxtrain.data.records import Dataset

# Where a worker finds things, and how it makes its batches, is its own affair.
OWN_FLAGS = {
    *("train", "val", "out", "cache", "cache_dir", "loader", "loader_workers", "prefetch_mb", "threads"),
    *(
        "pretrained",
        "teacher",
        "log",
        "log_level",
        "max_restarts",
        "num_workers",
        "min_workers",
        "start_timeout",
    ),
}
FOLDER_ID = ".folder"


def of_worker(run: Run, train: Dataset, val: Dataset | None, identity: InputIdentity) -> dict[str, Any]:
    """Return this worker's node information; every host that reads the same inputs has the same `identity`."""
    out = Path(run.output.out)
    flags = {name: value for name, value in config.to_flat(run).items() if name not in OWN_FLAGS}
    sets = {
        "train": fingerprint.short(train, identity.training_set or {}),
        "val": val and fingerprint.short(val, identity.validation_set or {}),
    }
    whole = _checkpoints(run.output)
    return {
        "versions": versions(),
        "config": flags,
        "data": {**sets, "pretrained": identity.pretrained, "teacher": identity.teacher},
        "folder": _folder_id(out),
        "checkpoints": list(whole),
        "savers": list(whole.values()),
    }


def _checkpoints(output: config.Output) -> dict[int, str]:
    """Steps of the whole ones, and the job that wrote each."""
    try:
        return directory.whole_steps(Path(output.out) / "checkpoints")
    except Stop:
        if output.resume == "auto":
            raise
        return {}  # where --resume says where to begin, nothing has to be there


def versions() -> dict[str, Any]:
    """All that servers and the scheduler have to tell. Another OpenCV gives other pixels, so wheels count."""
    return {"mxtrain": mxtrain.__version__, **machine.installed_wheels()}


def _folder_id(out: Path) -> str:
    """A random name that stays with the folder: who reads the same one shares its disk."""
    path = out / FOLDER_ID
    aside = out / f"{FOLDER_ID}-{uuid.uuid4().hex}"
    with durable.writing(path):
        if not path.exists():
            aside.write_text(uuid.uuid4().hex, encoding="utf-8")
            with contextlib.suppress(FileExistsError):
                os.link(
                    aside, path
                )  # unlike a rename it does not replace what another worker was faster with
            aside.unlink()
        return path.read_text(encoding="utf-8")
