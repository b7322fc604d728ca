"""The files of a conversion: a run folder of one checkpoint, or a .params file.

Owns what such a checkpoint holds, so that evaluate, predict, export and --pretrained take it as any other; fit does not
resume from it (`checkpoint/resume.py`), as nothing of a run is known.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any, Mapping, Sequence

from mxtrain import config
from mxtrain.checkpoint import directory
from mxtrain.checkpoint.directory import CONVERTED, WEIGHTS, Snapshot
from mxtrain.config import Run, batch_plan
from mxtrain.config.values import mean_deviation
from mxtrain.core import durable, params_file
from mxtrain.core.errors import DataError, UsageError
from mxtrain.core.params_file import Arrays

PARAMS = ".params"


def refuse(out: Path) -> None:
    """Refuse a place where something else is that must not be lost."""
    if out.suffix == PARAMS:
        if out.is_dir():
            raise UsageError(f"{out}: is a folder; give the name of a file")
        return
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out}: is a file; give the name of a folder, or one that ends in {PARAMS}")
    others = (
        [path for path in out.iterdir() if path.name not in ("checkpoints", "config.yaml")]
        if out.is_dir()
        else []
    )
    newest = directory.newest(directory.of_run(out)) if not others else None
    if others or (newest is not None and CONVERTED not in newest.state):
        raise UsageError(f"{out}: holds a run or other files; give a new folder")


def run_folder(
    out: Path, run: Run, class_names: Sequence[str], arrays: Arrays, origin: Mapping[str, Any]
) -> Path:
    """Write a run folder whose one checkpoint has these weights, and return the checkpoint; whole or not at all."""
    data = dataclasses.replace(run.data, num_classes=len(class_names))
    run = dataclasses.replace(
        run, data=data, output=dataclasses.replace(run.output, out=os.path.abspath(out))
    )
    description: dict[str, Any] = {"class_names": list(class_names)}
    for name, text in (("mean", data.mean), ("deviation", data.deviation)):
        numbers = mean_deviation.parse_numbers(f"--{name}", text, data.channels)
        description.update({} if numbers is None else {name: list(numbers)})
    state = {
        "config": config.to_flat(run),
        "description": description,
        "micro_batch": batch_plan.of_run(run).micro_batch,
        "score": None,
        CONVERTED: dict(origin),
    }
    try:
        out.mkdir(parents=True, exist_ok=True)
        path = directory.write(directory.of_run(out), Snapshot(0, {WEIGHTS: arrays}, state))
        durable.replace(out / "config.yaml", config.to_yaml(run))
    except OSError as error:
        raise durable.cannot_write(Path(error.filename or out), error) from None
    return path


def params(path: Path, arrays: Arrays) -> None:
    """Write arrays as a .params file, whole or not at all."""
    aside = path.with_name(f".{path.name}.writing")
    try:
        with aside.open("wb") as file:
            for chunk in params_file.encoded(arrays):
                file.write(chunk)
        durable.fsync(aside)
        aside.replace(path)
        durable.fsync(path.parent)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise durable.cannot_write(path, error) from None


def class_names(path: Path | None, num_classes: int, of_imagenet: Any) -> list[str]:
    """Return the names in a file, one a line; without one ImageNet's for its thousand classes, or numbers."""
    if path is None:
        return of_imagenet() if num_classes == 1000 else [str(number) for number in range(num_classes)]
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise UsageError(f"--classes {path}: {error}; give a text file with a name a line") from None
    names = [line for line in lines if line]
    if len(names) != num_classes:
        raise DataError(
            f"--classes {path}: has {len(names)} names, the net {num_classes} classes; give a line for each, or "
            f"--drop-head to leave the last layer out"
        )
    if len({*names}) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"--classes {path}: '{twice}' is there twice; give each class a name of its own")
    return names
