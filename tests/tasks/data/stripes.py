"""Pictures of stripes in three directions, of any phase, contrast and colour: no linear model tells them apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np

from mxtrain.data.records.record_file import classes_path
from mxtrain.data.records.record_writer import RecordWriter

SIZE, NAMES = 16, ("across", "down", "aslant")


def picture(direction: int, rng: np.random.Generator) -> Any:
    """Return a picture, (SIZE, SIZE, 3) of uint8, of stripes with a period of 4 to 6 pixels."""
    down, across = np.mgrid[:SIZE, :SIZE]
    along = (down, across, (down + across) / np.sqrt(2))[direction]
    waves = np.sin(2 * np.pi * (along / rng.uniform(4, 6) + rng.random()))
    grey = 128 + rng.choice([-1, 1]) * rng.uniform(20, 60) * waves + rng.normal(0, 15, (SIZE, SIZE))
    colours = grey[..., None] + rng.uniform(-20, 20, 3)
    return np.clip(colours, 0, 255).astype(np.uint8)


def write(folder: Path, num_train: int, num_val: int) -> None:
    """Write train.rec and val.rec, and one of their pictures as one.png."""
    for seed, (name, count) in enumerate((("train", num_train), ("val", num_val))):
        rng = np.random.default_rng(seed)
        with RecordWriter(folder / f"{name}.rec") as writer:
            for key in range(count):
                label = int(rng.integers(3))
                png = cv2.imencode(".png", picture(label, rng))[1].tobytes()
                writer.write(key, float(label), png)
        classes = "".join(f"{each}\t{count // 3}\n" for each in NAMES)
        classes_path(folder / f"{name}.rec").write_text(classes)
    (folder / "one.png").write_bytes(png)
