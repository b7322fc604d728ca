"""Text of which each letter follows from two things: the one before it, and the digit at the beginning.

`3adgj...`: as many letters on as the digit says, round an alphabet of 13. So no linear model of what came before
knows the next one. A document has the length of a window, so that record n is sample n.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.data.records.record_file import open_records
from tests.support.data.token_data import END, write_tokens

LETTERS, LARGEST_STEP, WINDOW = 13, 7, 16


def document(rng: np.random.Generator) -> bytes:
    step, first = int(rng.integers(1, LARGEST_STEP + 1)), int(rng.integers(LETTERS))
    letters = (97 + (first + step * place) % LETTERS for place in range(WINDOW - 2))
    return bytes([48 + step, *letters])


def write(folder: Path, num_train: int, num_val: int) -> None:
    for seed, (name, count) in enumerate((("train", num_train), ("val", num_val))):
        rng = np.random.default_rng(seed)
        write_tokens(folder / f"{name}.rec", [document(rng) for _ in range(count)])


def linear_perplexity(folder: Path) -> float:
    """Of a logistic regression of the digit, the last two letters and the place."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    (x, y), (val_x, val_y) = (_table(folder / name) for name in ("train.rec", "val.rec"))
    model = linear_model.LogisticRegression(max_iter=200).fit(x, y)
    places = np.searchsorted(model.classes_, val_y)
    return float(np.exp(-model.predict_log_proba(val_x)[np.arange(len(val_y)), places].mean()))


def _table(path: Path) -> tuple[Any, Any]:
    records = open_records(path)
    rows = np.array([np.frombuffer(records.read(place).payload, "<u2") for place in range(len(records))])
    before = np.concatenate([np.full((len(rows), 2), END), rows[:, :-1]], axis=1)
    seen = [np.where(np.arange(WINDOW) > 0, rows[:, :1], END), before[:, 1:], before[:, :-1]]
    one_hot = [np.eye(END + 1)[each][..., 48 : 97 + LETTERS].reshape(-1, 49 + LETTERS) for each in seen]
    places = np.tile(np.eye(WINDOW), (len(rows), 1))
    return np.concatenate([*one_hot, places], axis=1), rows.ravel()
