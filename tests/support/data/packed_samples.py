"""Packed files of chosen samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Sequence

import numpy as np

from mxtrain.data.records import record_writer

NUM_SAMPLES = 60


def samples(seed: int = 0, num_bytes: int = 40) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [(key, float(key % 3), rng.bytes(num_bytes + key % 7)) for key in range(NUM_SAMPLES)]


def packed(path: Path, content: Sequence[Any]) -> Path:
    path.parent.mkdir(exist_ok=True)
    with record_writer.RecordWriter(path) as writer:
        for sample in content:
            writer.write(*sample)
    return path
