"""What the jobs that faults strike learn from: bright pictures against dark ones."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
NUM_CLASSES = 2
SECONDS_PER_SAMPLE = 0.004


def pack(folder: Path, num_samples: int, seed: int = 0) -> Path:
    """A .rec file in FOLDER with so many pictures."""
    rng = np.random.default_rng(seed)
    for name, level in (("bright", 200), ("dark", 40)):
        (folder / "images" / name).mkdir(parents=True)
        for number in range(num_samples // NUM_CLASSES):
            picture = np.clip(rng.normal(level, 60, (20, 20, 3)), 0, 255).astype(np.uint8)
            cv2.imwrite(str(folder / "images" / name / f"{number}.png"), picture)
    line = [sys.executable, "-m", "tools.im2rec_wrapper", "pack", str(folder / "images"), str(folder)]
    subprocess.run(line, cwd=ROOT, check=True, timeout=60, capture_output=True)
    return folder / "data.rec"


class Slow:
    """A Dataset that takes its time, so that an evaluation lasts long enough for faults to meet it."""

    synsets = ("bright", "dark")

    def __init__(self, num_samples: int):
        rng = np.random.default_rng(1)
        self._label = np.arange(num_samples) % NUM_CLASSES
        levels = np.where(self._label, 40, 200)[:, None, None, None]
        self._pictures = np.clip(rng.normal(levels, 60, (num_samples, 20, 20, 3)), 0, 255).astype(np.uint8)

    def __len__(self) -> int:
        return len(self._label)

    def __getitem__(self, number: int) -> tuple[Any, int]:
        time.sleep(SECONDS_PER_SAMPLE)
        return self._pictures[number], self._label[number]


def held_out() -> Slow:
    return Slow(128)


class Raising(Slow):
    """Breaks at some samples where the second worker comes to them."""

    def __getitem__(self, number: int) -> tuple[Any, int]:
        if os.environ.get("MXTRAIN_NODE") == "worker-1" and number >= 112:
            raise RuntimeError("the user's own code broke")
        return super().__getitem__(number)


def raising() -> Raising:
    return Raising(128)
