"""What a run takes from elsewhere: the weights behind `--pretrained`, the net behind `--teacher`.

Owns what such a path may be (a file, a checkpoint, a run folder) and the checksums by which a checkpoint knows them
again, whatever they are called by then. Needs no mxnet.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from mxtrain.checkpoint import directory
from mxtrain.checkpoint.directory import AVERAGES, MANIFEST, WEIGHTS, Checkpoint
from mxtrain.config import Run
from mxtrain.core.errors import DataError, UsageError


def describe(run: Run, class_names: list[str]) -> dict[str, Any]:
    """What a checkpoint keeps of them; a teacher of other classes is refused here."""
    pretrained = weights_file("--pretrained", run.model.pretrained) if run.model.pretrained else None
    teacher = found_at("--teacher", run.model.teacher) if run.model.teacher else None
    if teacher is not None:
        _refuse_other_classes(teacher, class_names)
    return {
        "pretrained": pretrained and _checksum(pretrained),
        "teacher": teacher and _checksum(weights_of(teacher)),
    }


def weights_file(flag: str, text: str) -> Path:
    """The .params file that a flag means: that file, or the weights inside a run folder or checkpoint."""
    if Path(text).is_file():
        return Path(text)
    return weights_of(found_at(flag, text, "a .params file, "))


def weights_of(found: Checkpoint) -> Path:
    """A checkpoint's averaged weights where it has some."""
    averages = found[0] / AVERAGES
    return averages if averages.is_file() else found[0] / WEIGHTS


def found_at(flag: str, text: str, others: str = "") -> Checkpoint:
    """The checkpoint at this path, or the best one of the run folder there."""
    path = Path(text)
    if (path / MANIFEST).is_file():
        return path, directory.read_state(path)
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


def _refuse_other_classes(teacher: Checkpoint, class_names: list[str]) -> None:
    known = teacher[1]["class_names"]
    if len(known) != len(class_names):
        raise UsageError(
            f"--teacher {teacher[0]}: knows {len(known)} classes, --train has {len(class_names)}"
        )
    other = next((n for n, pair in enumerate(zip(known, class_names)) if pair[0] != pair[1]), None)
    if other is not None:
        raise UsageError(
            f"--teacher {teacher[0]}: its class {other} is '{known[other]}', that of --train is "
            f"'{class_names[other]}'; it has to have learnt the same classes in the same order"
        )


def _checksum(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()
