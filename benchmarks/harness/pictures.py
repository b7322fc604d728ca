"""Folders of pictures of noise, for commands that read and decode but need not learn."""

from __future__ import annotations

from pathlib import Path


def write(folder: Path, count: int, width: int, height: int, num_classes: int) -> Path:
    """Write JPEGs of soft noise, the classes in turn, and return their folder."""
    import numpy as np

    from mxtrain.core.opencv import cv2

    rng = np.random.default_rng(0)
    for number in range(count):
        path = folder / f"class{number % num_classes}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        small = rng.integers(0, 255, (height // 10, width // 10, 3), dtype=np.uint8)
        cv2.imwrite(str(path), cv2.resize(small, (width, height), interpolation=cv2.INTER_CUBIC))
    return folder
