"""Pictures of discs, squares and triangles, with a class for each pixel: a made set that is learnt in minutes.

    python -m examples.masked_shapes shapes

writes shapes/train.rec and shapes/val.rec, which `python -m mxtrain.fit --task segmentation` reads. A pixel beside the
border between two classes does not count, as in Pascal VOC.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from examples import boxed_shapes
from mxtrain.core.opencv import cv2
from mxtrain.data.masks import mask_format
from mxtrain.data.records.record_file import classes_path
from mxtrain.data.records.record_writer import RecordWriter

CLASSES = ("background", *boxed_shapes.SHAPES)


def sample(rng: np.random.Generator, size: int = boxed_shapes.SIZE) -> tuple[np.ndarray, np.ndarray]:
    """Return a picture, RGB, and its mask."""
    picture, _, shapes = boxed_shapes.scene(rng, size)
    cross = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]], np.uint8)
    is_border = cv2.dilate(shapes, cross) != cv2.erode(shapes, cross)
    return picture, np.where(is_border, mask_format.IGNORED, shapes).astype(np.uint8)


def write(path: Path, count: int, seed: int, size: int = boxed_shapes.SIZE) -> Path:
    """Write so many pictures with their masks to a .rec file, and the names of the classes beside it."""
    with RecordWriter(path) as writer:
        for key in range(count):
            picture, mask = sample(np.random.default_rng((seed, key)), size)
            encoded = cv2.imencode(".png", picture[:, :, ::-1])[1].tobytes()
            writer.write(key, 0.0, mask_format.join(encoded, mask))
    classes_path(path).write_text("".join(f"{name}\n" for name in CLASSES))
    return path


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "train.rec", 1000, seed=0)
    write(folder / "val.rec", 200, seed=1)
