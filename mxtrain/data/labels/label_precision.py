"""The type of labels: float32, as records hold them, or float64 where float32 would cut away what tells them apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxtrain.data.records.recordio import Floats

_MOST_LOST = 1e-3  # of the deviation of a number


def of_labels(values: Any) -> Floats:
    """Return labels, (n,) or (n, k) numbers, in the type that keeps them."""
    with np.errstate(over="ignore"):  # infinite then, and refused by its sample
        short = np.asarray(values, np.float32)
    return np.where(np.isfinite(short), values, short).astype(np.float64) if are_cut(values) else short


def are_cut(values: Any) -> bool:
    """Return whether float32 moves a number by more than a thousandth of the deviation of its column."""
    exact = np.asarray(values, np.float64).reshape(len(values), -1)
    with np.errstate(over="ignore"):
        lost = exact - exact.astype(np.float32)
    return any(_is_cut(column, moved) for column, moved in zip(exact.T, lost.T))


def _is_cut(column: Any, moved: Any) -> bool:
    finite = np.isfinite(moved)
    if not moved[finite].any() or np.ptp(column[finite]) == 0:
        return False
    return bool(np.abs(moved[finite]).max() > _MOST_LOST * column[finite].std())
