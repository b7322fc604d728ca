"""Pictures of discs, squares and triangles, with the boxes around them: a made set on which detectors learn in minutes.

    python examples/boxed_shapes.py shapes

writes shapes/train.rec and shapes/val.rec, which `python -m mxtrain.fit --task detection` reads.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, Sequence

import numpy as np

from mxtrain.core.opencv import cv2
from mxtrain.data.boxes import box_labels
from mxtrain.data.records.record_file import classes_path
from mxtrain.data.records.record_writer import RecordWriter

SHAPES = ("disc", "square", "triangle")
SIZE = 96  # of a picture
MOST = 3  # shapes in a picture


def samples(count: int, seed: int, size: int = SIZE) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield pictures, RGB, each with its boxes (n, 6): x1, y1, x2, y2, class, flag; some hold none."""
    for number in range(count):
        yield sample(np.random.default_rng((seed, number)), size)


def sample(rng: np.random.Generator, size: int = SIZE) -> tuple[np.ndarray, np.ndarray]:
    """Return a picture, and the boxes of its shapes as measured from its pixels."""
    return scene(rng, size)[:2]


def scene(rng: np.random.Generator, size: int = SIZE) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a picture of up to MOST shapes apart from each other, their boxes, and the shape of each pixel, from 1."""
    picture = rng.integers(0, 90, 3) + rng.integers(0, 30, (size, size, 3))
    free, boxes, shapes = np.ones((size, size), bool), [], np.zeros((size, size), np.uint8)
    for _ in range(int(rng.integers(0, MOST + 1))):
        shape, side = int(rng.integers(len(SHAPES))), int(rng.integers(size // 6, size // 2))
        left, top = rng.integers(0, size - side, 2).tolist()
        if not free[top : top + side, left : left + side].all():
            continue
        free[top : top + side, left : left + side] = False
        mask = np.zeros((size, size), np.uint8)
        _draw(mask, SHAPES[shape], left, top, side)
        picture[mask > 0] = rng.integers(140, 256, 3)
        shapes[mask > 0] = shape + 1
        rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        boxes.append([columns[0], rows[0], columns[-1] + 1, rows[-1] + 1, shape, box_labels.NORMAL])
    return picture.astype(np.uint8), np.array(boxes, np.float32).reshape(-1, 6), shapes


def _draw(mask: np.ndarray, shape: str, left: int, top: int, side: int) -> None:
    if shape == "disc":
        radius = (side - 1) // 2
        cv2.circle(mask, (left + radius, top + radius), radius, 1, -1)
    elif shape == "square":
        mask[top : top + side, left : left + side] = 1
    else:
        corners = [(left, top + side - 1), (left + side - 1, top + side - 1), (left + side // 2, top)]
        cv2.fillPoly(mask, [np.array(corners)], 1)


def write(path: Path, count: int, seed: int, size: int = SIZE) -> Path:
    """Write so many pictures with their boxes to a .rec file, and the names of the shapes beside it."""
    records = (
        (box_labels.label_of(boxes, size, size), encoded(picture))
        for picture, boxes in samples(count, seed, size)
    )
    return write_records(path, records, SHAPES)


def encoded(picture: np.ndarray) -> bytes:
    """Return an RGB picture as a PNG."""
    return cv2.imencode(".png", picture[:, :, ::-1])[1].tobytes()


def write_records(path: Path, records: Iterable[tuple[Any, bytes]], class_names: Sequence[str]) -> Path:
    """Write labels and payloads to a .rec file, and the names of classes beside it."""
    with RecordWriter(path) as writer:
        for key, (label, payload) in enumerate(records):
            writer.write(key, label, payload)
    classes_path(path).write_text("".join(f"{name}\n" for name in class_names))
    return path


def write_both(folder: Path, write: Callable[..., Path]) -> None:
    """Write a training and a validation set into a folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "train.rec", 1000, seed=0)
    write(folder / "val.rec", 200, seed=1)


if __name__ == "__main__":
    write_both(Path(sys.argv[1]), write)
