"""Weights that a run takes over from elsewhere: those of `--pretrained`, and the net of `--teacher`.

Owns what such a path may be (a file, a checkpoint, a run folder) and the checksums by which a checkpoint recognises
them, whatever they are called by then. Needs no mxnet.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import Any, Mapping

from mxtrain.checkpoint import directory
from mxtrain.checkpoint.directory import AVERAGES, MANIFEST, WEIGHTS, Checkpoint
from mxtrain.config import Run
from mxtrain.config.values import addresses
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.storage import snapshot
from mxtrain.data.storage.options import DEFAULTS


def pretrained_checksum(run: Run) -> str | None:
    """Return the SHA-256 of the weights of `--pretrained`; None without any."""
    return _checksum(weights_file("--pretrained", run.model.pretrained)) if run.model.pretrained else None


def teacher_checksum(run: Run, description: Mapping[str, Any]) -> str | None:
    """Return the SHA-256 of the weights of `--teacher`; None without one. A teacher of other data is refused."""
    if not run.model.teacher:
        return None
    teacher = checkpoint_at("--teacher", run.model.teacher)
    _refuse_other_classes(teacher, description.get("class_names", []))
    _refuse_other_numbers(teacher, description)
    return _checksum(weights_of(teacher.path))


def weights_file(flag: str, text: str) -> Path:
    """Return the .params file that a flag's `text` means: that file, or the one inside a run folder or checkpoint."""
    if _path(flag, text).is_file():
        return _path(flag, text)
    return weights_of(checkpoint_at(flag, text, "a .params file, ").path)


def pretrained_state(text: str) -> Mapping[str, Any]:
    """Return the state of the checkpoint that `--pretrained` means; an empty one for a .params file, and for none."""
    if not text or _path("--pretrained", text).is_file():
        return {}
    return checkpoint_at("--pretrained", text, "a .params file, ").state


def weights_of(path: Path) -> Path:
    """Return the file of a checkpoint's averaged weights, or of its weights where it has no averages."""
    averages = path / AVERAGES
    return averages if averages.is_file() else path / WEIGHTS


def checkpoint_at(flag: str, text: str, others: str = "") -> Checkpoint:
    """Return the checkpoint at the path `text` of `flag`, or the best one of the run folder there.

    `others` says, for the message, what else the flag takes.
    """
    path = _path(flag, text)
    if (path / MANIFEST).is_file():
        return Checkpoint(path, directory.read_state(path))
    if not (path / "checkpoints").is_dir():
        what = "neither a run folder nor a checkpoint" if path.exists() else "no such file or folder"
        raise UsageError(
            f"{flag} {text}: {what}; give {others}an --out of mxtrain.fit, or a folder in its checkpoints/"
        )
    best = directory.best(path / "checkpoints")
    if best is None:
        raise DataError(
            f"{flag} {text}: holds no whole checkpoint; let mxtrain.fit finish an epoch there first"
        )
    return best


@functools.lru_cache(maxsize=None)
def _path(flag: str, text: str) -> Path:
    """Return the path of a file or folder; of one in a store that of a copy here, one for this process."""
    if not addresses.is_address(text):
        return Path(addresses.local(text))
    address = addresses.parse(flag, text)
    if address.suffix in (".params", ".npz"):
        return snapshot.local_copy(address, DEFAULTS)
    folder = snapshot.local_folder(address, DEFAULTS)
    if folder is None:
        raise UsageError(
            f"{flag} {text}: has no files; give a .params file, a run folder or a checkpoint in a store"
        )
    return folder


def _refuse_other_classes(teacher: Checkpoint, class_names: list[str]) -> None:
    known = (teacher.state.get("description") or teacher.state).get("class_names", [])
    if len(known) != len(class_names):
        raise UsageError(
            f"--teacher {teacher.path}: knows {len(known)} classes, --train has {len(class_names)}"
        )
    other = next((n for n, pair in enumerate(zip(known, class_names)) if pair[0] != pair[1]), None)
    if other is not None:
        raise UsageError(
            f"--teacher {teacher.path}: its class {other} is '{known[other]}', that of --train is "
            f"'{class_names[other]}'; it has to have learnt the same classes in the same order"
        )


def _refuse_other_numbers(teacher: Checkpoint, description: Mapping[str, Any]) -> None:
    """Refuse a teacher that has learnt from pictures normalised otherwise: it sees those of the run."""
    known = teacher.state.get("description") or {}
    for key in ("mean", "deviation"):
        if known.get(key) != description.get(key):
            raise UsageError(
                f"--teacher {teacher.path}: its --{key} is {known.get(key) or 'imagenet'}, that of this run "
                f"{description.get(key) or 'imagenet'}; give both the same"
            )


def _checksum(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()
