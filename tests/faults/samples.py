"""The data of jobs with faults: bright pictures against dark ones, and few others; and data of users that breaks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import cv2
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
NUM_CLASSES = 2
NUM_SAMPLES = 128


def pack(folder: Path, num_samples: int, seed: int = 0) -> Path:
    """Pack so many pictures into FOLDER and return the .rec file."""
    rng = np.random.default_rng(seed)
    num_rare = num_samples // 16
    num_others = (num_samples - num_rare) // 2
    for name, level, count in (
        ("bright", 200, num_others),
        ("dark", 40, num_others),
        ("rare", 120, num_rare),
    ):
        (folder / "images" / name).mkdir(parents=True)
        for number in range(count):
            picture = np.clip(rng.normal(level, 60, (20, 20, 3)), 0, 255).astype(np.uint8)
            cv2.imwrite(str(folder / "images" / name / f"{number}.png"), picture)
    line = [sys.executable, "-m", "tools.im2rec_wrapper", "pack", str(folder / "images"), str(folder)]
    subprocess.run(line, cwd=ROOT, check=True, timeout=60, capture_output=True)
    return folder / "data.rec"


def data_flags(folder: Path) -> list[str]:
    """Pack data into FOLDER and return its flags; an evaluation on it is long enough for faults to hit it."""
    return [
        "--train",
        str(pack(folder / "train", NUM_SAMPLES)),
        "--val",
        str(pack(folder / "val", 1216, seed=1)),
    ]


class Raising:
    """A dataset that raises at some samples on the second worker."""

    synsets = ("bright", "dark")

    def __len__(self) -> int:
        return NUM_SAMPLES

    def __getitem__(self, number: int) -> tuple[Any, int]:
        if os.environ.get("MXTRAIN_NODE") == "worker-1" and number >= 112:
            raise RuntimeError("the user's own code broke")
        return np.full((20, 20, 3), number, np.uint8), number % NUM_CLASSES


def raising() -> Raising:
    return Raising()


def leaving() -> NoReturn:
    sys.exit("no such data here")
