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

CLASSES = ("background", *boxed_shapes.SHAPES)


def sample(rng: np.random.Generator, size: int = boxed_shapes.SIZE) -> tuple[np.ndarray, np.ndarray]:
    """Return a picture, RGB, and its mask."""
    picture, _, shapes = boxed_shapes.scene(rng, size)
    cross = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]], np.uint8)
    is_border = cv2.dilate(shapes, cross) != cv2.erode(shapes, cross)
    return picture, np.where(is_border, mask_format.IGNORED, shapes).astype(np.uint8)


def write(path: Path, count: int, seed: int, size: int = boxed_shapes.SIZE) -> Path:
    """Write so many pictures with their masks to a .rec file, and the names of the classes beside it."""
    samples = (sample(np.random.default_rng((seed, number)), size) for number in range(count))
    records = ((0.0, mask_format.join(boxed_shapes.encoded(picture), mask)) for picture, mask in samples)
    return boxed_shapes.write_records(path, records, CLASSES)


if __name__ == "__main__":
    boxed_shapes.write_both(Path(sys.argv[1]), write)
