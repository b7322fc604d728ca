"""Pictures of a dial, any two colours, with the direction of its hand in two numbers: no linear model sees it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np

from mxtrain.data.records.record_writer import RecordWriter

SIZE, PARTS = 16, 16  # parts of a pixel, in which OpenCV draws


def picture(angle: float, rng: np.random.Generator) -> Any:
    """Return a picture, (SIZE, SIZE, 3) of uint8: a hand with a round end in the middle."""
    colours = rng.integers(80, 176, 3)
    pixels = np.full((SIZE, SIZE, 3), colours, np.uint8)
    hand = tuple(int(each) for each in colours + rng.choice([-80, 80]))
    middle = SIZE / 2 + rng.uniform(-1, 1, 2)
    tip = middle + rng.uniform(5, 7) * np.array([np.cos(angle), np.sin(angle)])
    start, end = (tuple(np.round(PARTS * each).astype(int).tolist()) for each in (middle, tip))
    cv2.line(pixels, start, end, hand, 1, cv2.LINE_AA, 4)
    cv2.circle(pixels, start, 2 * PARTS, hand, -1, cv2.LINE_AA, 4)
    return pixels


def write(folder: Path, num_train: int, num_val: int) -> None:
    """Write train.rec and val.rec, and one of their pictures as one.png."""
    for seed, (name, count) in enumerate((("train", num_train), ("val", num_val))):
        rng = np.random.default_rng(seed)
        with RecordWriter(folder / f"{name}.rec") as writer:
            for key in range(count):
                angle = 2 * np.pi * rng.random()
                png = cv2.imencode(".png", picture(angle, rng))[1].tobytes()
                numbers = np.array([100 + 30 * np.cos(angle), np.sin(angle)], np.float32)
                writer.write(key, numbers, png)
    (folder / "one.png").write_bytes(png)


def net(num_classes: int) -> Any:
    """Return a small net that knows where it looks: no pooling over the whole picture."""
    from mxtrain.runtime import mx

    nn = mx.gluon.nn
    made = nn.HybridSequential()
    with made.name_scope():
        for channels in (8, 16):
            made.add(nn.Conv2D(channels, 3, 2, 1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))
        made.add(nn.Flatten(), nn.Dense(32, activation="relu"), nn.Dropout(0.1), nn.Dense(num_classes))
    return made
