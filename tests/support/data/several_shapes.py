"""Pictures of several shapes at once, at random places in random colours, with a label of 0 or 1 for each shape.

A linear model cannot tell them: no pixel by itself says anything. Some labels may be unknown, and are -1.
"""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

from mxtrain.data.records.record_file import classes_path
from mxtrain.data.records.record_writer import RecordWriter

SHAPES = ("cross", "disc", "ring")
SHARES = (0.2, 0.5, 0.4)  # of the pictures that have the shape
HEIGHT, WIDTH, RADIUS = 24, 32, 5


def picture(labels, rng: np.random.Generator, height: int = HEIGHT, width: int = WIDTH) -> np.ndarray:
    """RGB pixels; a shape may lie over a part of another."""
    image = np.full((height, width, 3), rng.integers(0, 100, 3), np.uint8)
    for shape, is_there in zip(SHAPES, labels):
        if not is_there:
            continue
        x, y = rng.integers(RADIUS, width - RADIUS), rng.integers(RADIUS, height - RADIUS)
        colour = rng.integers(140, 256, 3).tolist()
        if shape == "cross":
            cv2.line(image, (x - RADIUS, y), (x + RADIUS, y), colour, 2)
            cv2.line(image, (x, y - RADIUS), (x, y + RADIUS), colour, 2)
        else:
            cv2.circle(image, (int(x), int(y)), RADIUS, colour, -1 if shape == "disc" else 2)
    return image


def write(path: Path, num_samples: int, seed: int, share_unknown: float = 0.0, **size: int) -> Path:
    rng = np.random.default_rng(seed)
    with RecordWriter(path) as writer:
        for key in range(num_samples):
            labels = (rng.random(len(SHAPES)) < SHARES).astype(np.float32)
            pixels = cv2.imencode(".png", picture(labels, rng, **size)[:, :, ::-1])[1].tobytes()
            labels[rng.random(len(SHAPES)) < share_unknown] = -1
            writer.write(key, labels, pixels)
    classes_path(path).write_text("".join(f"{shape}\n" for shape in SHAPES))
    return path


def write_sets(folder: Path, num_train: int, num_val: int) -> None:
    """Write train.rec, some of whose labels are unknown, and val.rec, and one picture as one.png."""
    write(folder / "train.rec", num_train, seed=0, share_unknown=0.1)
    write(folder / "val.rec", num_val, seed=1)
    pixels = picture((1, 1, 0), np.random.default_rng(2))
    (folder / "one.png").write_bytes(cv2.imencode(".png", pixels[:, :, ::-1])[1].tobytes())
