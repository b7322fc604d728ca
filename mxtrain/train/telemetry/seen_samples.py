"""Some samples as the net sees them in training: augmented, mixed and cut, kept as files in the run folder.

Owns which samples these are, the first of an attempt's first micro-batch on the first worker, and their files. What a
person sees of them is the task's. None of it can stop a run.
"""

from __future__ import annotations

import contextlib
import logging
import re
from pathlib import Path
from typing import Any, Callable

from mxtrain.data.fields import Array, Arrays
from mxtrain.tasks.task import Task

logger = logging.getLogger(__name__)

FOLDER = "augmented"  # in the run folder
COUNT = 16
LARGEST_PNG = 64  # pixels of a side; larger pictures are JPEG, which takes a tenth of the time
MOST_CHARACTERS = 60  # of a caption in a file's name


class SeenSamples:
    """The task's `prepare`, which keeps a copy of what it has prepared first."""

    def __init__(self, prepare: Callable[[Arrays, int, int], Arrays], is_kept: bool):
        self._prepare, self._is_kept = prepare, is_kept
        self._first: Arrays | None = None

    def __call__(self, arrays: Arrays, step: int, position: int) -> Arrays:
        prepared = self._prepare(arrays, step, position)
        if self._is_kept:
            self._is_kept = False
            with contextlib.suppress(Exception):  # of a user's task, which may prepare what is no array
                self._first = {name: array[:COUNT].copy() for name, array in prepared.items()}
        return prepared

    def write(self, task: Task, out: Path) -> None:
        """Write the samples that are kept, if any, in the place of those of an earlier attempt."""
        if self._first is None:
            return
        arrays, self._first = self._first, None
        try:
            seen = task.samples_seen(arrays)
            if seen:
                _write(out / FOLDER, seen)
        except Exception:  # of a user's task, or of a full disk, which the run itself will report
            logger.debug("samples as the net sees them are not kept", exc_info=True)


def _write(folder: Path, seen: Any) -> None:
    folder.mkdir(exist_ok=True)
    for old in [path for path in folder.iterdir() if path.suffix in (".png", ".jpg", ".txt")]:
        old.unlink()
    for number, (caption, sample) in enumerate(seen):
        words = re.sub(r"[^\w .,%+-]+", "_", caption)[:MOST_CHARACTERS]
        name = f"{number:02d} {words}".strip()
        suffix, content = (".txt", sample.encode()) if isinstance(sample, str) else _encoded(sample)
        (folder / f"{name}{suffix}").write_bytes(content)


def _encoded(picture: Array) -> tuple[str, bytes]:
    from mxtrain.core.opencv import cv2

    suffix = ".png" if max(picture.shape[:2]) <= LARGEST_PNG else ".jpg"
    colours = picture if picture.shape[2] == 1 else cv2.cvtColor(picture, cv2.COLOR_RGB2BGR)
    return suffix, cv2.imencode(suffix, colours)[1].tobytes()
