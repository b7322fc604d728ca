"""Records for the task of `majority.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mxtrain.data.records.record_writer import RecordWriter
from tests.support.user_code.majority import LONGEST, WORDS


def write_sets(folder: Path, num_train: int, num_val: int) -> None:
    """Write train.rec, and val.rec with some sequences that do not count."""
    write(folder / "train.rec", num_train, seed=0)
    write(folder / "val.rec", num_val, seed=2, share_labelled=0.8)


def write(path: Path, num_samples: int, seed: int, share_labelled: float = 1.0) -> Path:
    """Write sequences of any length; those without a majority get a word more."""
    rng = np.random.default_rng(seed)
    with RecordWriter(path) as writer:
        for key in range(num_samples):
            words = rng.integers(1, WORDS, 1 + int((LONGEST - 1) * rng.random() ** 3)).astype(np.uint8)
            words[rng.random(len(words)) < 0.5] = rng.integers(1, 3)
            ahead = int((words == 2).sum()) - int((words == 1).sum())
            if not ahead:
                words, ahead = np.append(words, np.uint8(2)), 1
            label = float(ahead > 0) if rng.random() < share_labelled else -1.0
            writer.write(key, label, words.tobytes())
    return path
