"""The handwritten digits in five parts: each is held out once, by a run that learns from the other four."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.harness import commands, processes

NUM_FOLDS, NUM_CLASSES = 5, 10


def make(folder: Path) -> list[tuple[Path, Path]]:
    """Return a .rec to train on and one held out for each fold; they are made if the folder lacks them."""
    if not folder.exists():
        aside = folder.with_name(f"{folder.name}.partial")
        shutil.rmtree(aside, ignore_errors=True)
        _make(aside)
        aside.rename(folder)
    return [(folder / f"train{fold}.rec", folder / f"val{fold}.rec") for fold in range(NUM_FOLDS)]


def _make(folder: Path) -> None:
    images = folder / "images"
    processes.run(sys.executable, "examples/digits.py", images)
    pictures = sorted(images.rglob("*.png"))
    held_out_by = deal(np.array([picture.parent.name for picture in pictures]), NUM_FOLDS)
    for fold in range(NUM_FOLDS):
        sets = {"train": folder / f"train{fold}", "val": folder / f"val{fold}"}
        for picture, holder in zip(pictures, held_out_by):
            link = sets["val" if holder == fold else "train"] / picture.relative_to(images)
            link.parent.mkdir(parents=True, exist_ok=True)
            os.link(picture, link)
        for source in sets.values():
            commands.pack(source, source.with_suffix(".rec"))


def deal(labels: npt.NDArray[Any], num_folds: int) -> npt.NDArray[np.int64]:
    """Return the fold of each sample: each class is shuffled and dealt out, starting where the last one ended."""
    rng = np.random.Generator(np.random.PCG64(0))
    order: list[int] = []
    for label in np.unique(labels):
        order.extend(rng.permutation(np.flatnonzero(labels == label)))
    folds = np.empty(len(labels), np.int64)
    folds[order] = np.arange(len(labels)) % num_folds
    return folds
