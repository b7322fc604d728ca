"""Clicks whose columns are those of Criteo's: 26 categories and 13 numbers; a few ids come often, most hardly ever."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

NUM_CATEGORIES, NUM_NUMBERS = 26, 13


class Clicks(NamedTuple):
    """Samples: ids of all columns are numbered through, below `num_ids`."""

    ids: Any  # int64 (samples, categories)
    numbers: Any  # float32 (samples, numbers)
    clicked: Any  # float32
    num_ids: int


def made(num_samples: int, num_ids: int) -> Clicks:
    """Return the same clicks each time, with odds that a number for each id and each column of numbers makes."""
    rng = np.random.default_rng(0)
    of_column = num_ids // NUM_CATEGORIES
    ranks = of_column ** rng.random((num_samples, NUM_CATEGORIES))  # how often: by Zipf's law
    ids = ranks.astype(np.int64) - 1 + np.arange(NUM_CATEGORIES) * of_column
    numbers = rng.standard_normal((num_samples, NUM_NUMBERS), np.float32)
    worth = rng.normal(0, 0.3, num_ids).astype(np.float32)
    odds = worth[ids].sum(axis=1) + numbers @ rng.normal(0, 0.2, NUM_NUMBERS).astype(np.float32)
    clicked = (rng.random(num_samples) < 1 / (1 + np.exp(-odds))).astype(np.float32)
    return Clicks(ids, numbers, clicked, num_ids)


def write(path: Path, clicks: Clicks) -> Path:
    """Write clicks as a table of named columns, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = {f"c{column}": clicks.ids[:, column] for column in range(NUM_CATEGORIES)}
    numbers = {f"n{column}": clicks.numbers[:, column] for column in range(NUM_NUMBERS)}
    np.savez(path, **columns, **numbers, click=clicks.clicked.astype(np.int64))
    return path
