"""The type of labels: float32, as records hold them, or float64 where float32 would cut away what tells them apart."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mxtrain.data.records.recordio import Floats

_MOST_LOST = 1e-3  # of the deviation of a number


def of_labels(values: npt.ArrayLike) -> Floats:
    """Return labels, (n,) or (n, k) numbers, in the type that keeps them."""
    with np.errstate(over="ignore"):  # infinite then, and refused by its sample
        short = np.asarray(values, np.float32)
    return np.where(np.isfinite(short), values, short).astype(np.float64) if are_cut(values) else short


def are_cut(values: npt.ArrayLike) -> bool:
    """Return whether float32 moves a number by more than a thousandth of the deviation of its column."""
    numbers = np.asarray(values, np.float64)
    exact = numbers.reshape(len(numbers), -1)
    with np.errstate(over="ignore"):
        lost = exact - exact.astype(np.float32)
    return any(_is_cut(column, moved) for column, moved in zip(exact.T, lost.T))


def _is_cut(column: npt.NDArray[np.float64], moved: npt.NDArray[np.float64]) -> bool:
    finite = np.isfinite(moved)
    if not moved[finite].any() or np.ptp(column[finite]) == 0:
        return False
    return bool(np.abs(moved[finite]).max() > _MOST_LOST * column[finite].std())
