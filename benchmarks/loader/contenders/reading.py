"""A reader for contenders without one: records of a .rec by position, in an endless random order.

NumPy only, because it runs in every contender's environment. Records are whole (no payload holds the magic number)
and have one label, as `images.py` packs them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Iterator

import numpy as np

BATCH_SIZE, SIZE = 64, 224
SCALE, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_FRAME_BYTES, _HEADER_BYTES = 8, 24


class Payloads:
    """The JPEGs of a .rec with its .idx."""

    def __init__(self, rec: str):
        self._rec = rec
        self._descriptor: int | None = None
        offsets = np.loadtxt(Path(rec).with_suffix(".idx"), np.int64)[:, 1]
        heads = np.memmap(rec, np.uint8)[offsets[:, None] + np.arange(_FRAME_BYTES + _HEADER_BYTES)]
        num_bytes = heads[:, 4:8].copy().view("<u4")[:, 0].astype(np.int64)
        self.labels = heads[:, 12:16].copy().view("<f4")[:, 0]
        self.starts = offsets + _FRAME_BYTES + _HEADER_BYTES
        self.lengths = num_bytes - _HEADER_BYTES

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, position: int) -> bytes:
        if self._descriptor is None:  # one for each process
            self._descriptor = os.open(self._rec, os.O_RDONLY)
        return os.pread(self._descriptor, int(self.lengths[position]), int(self.starts[position]))


class EndlessOrder:
    """A sampler for torch's and gluon's loaders, so that no end of an epoch empties their queues."""

    def __init__(self, num_samples: int):
        self._num_samples = num_samples

    def __len__(self) -> int:
        return self._num_samples

    def __iter__(self) -> Iterator[int]:
        rng = np.random.default_rng(0)
        while True:
            yield from rng.permutation(self._num_samples).tolist()


def random_box(width: int, height: int, rng: np.random.Generator) -> tuple[int, int, int, int]:
    """Return left, top, width and height of RandomResizedCrop's box, drawn as torchvision draws it."""
    for _ in range(10):
        area = width * height * rng.uniform(*SCALE)
        ratio = np.exp(rng.uniform(*np.log(RATIO)))
        wide, high = round((area * ratio) ** 0.5), round((area / ratio) ** 0.5)
        if 0 < wide <= width and 0 < high <= height:
            return int(rng.integers(width - wide + 1)), int(rng.integers(height - high + 1)), wide, high
    return 0, 0, width, height
