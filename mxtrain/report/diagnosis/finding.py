"""A finding of the diagnosis, and what its modules share: settings, numbers out of records, words for numbers."""

from __future__ import annotations

import dataclasses
from typing import Any, Iterable

import numpy as np
import numpy.typing as npt

from mxtrain.report.history import History, Record

Floats = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a run. `name` is a stable word; `evidence` are sentences that hold the numbers;
    `advice` begins with a flag to paste where there is one; `steps` are the first and the last it is seen in.
    """

    name: str
    title: str
    evidence: tuple[str, ...]
    advice: str
    steps: tuple[int, int] | None = None


def setting(history: History, flag: str, default: Any = None) -> Any:
    """Return the run's value of a flag, named as in config.yaml."""
    value = history.config.get(flag)
    return default if value is None else value


def rate_of(history: History) -> float:
    """Return the run's --lr; NaN where its config does not tell."""
    return as_number(history.config.get("lr"))


def doctor(history: History, only: str) -> str:
    """Return the command that measures a part of this run alone."""
    return f"python -m mxtrain.doctor --config {history.folder / 'config.yaml'} --only {only}"


def as_number(value: Any) -> float:
    """Return a number out of a record; NaN for anything else."""
    return float(value) if isinstance(value, (int, float)) and abs(value) < 1e308 else float("nan")


def numbers(records: Iterable[Record], key: str) -> Floats:
    """Return one number of each of the records; NaN where it has none."""
    return np.array([as_number(record.get(key)) for record in records], np.float64)


def total(values: Any) -> float:
    """Return the sum of those that are numbers."""
    return float(np.nansum(values)) if len(values) else 0.0


def median(values: Any) -> float:
    """Return the median of those that are numbers; NaN where none is."""
    known = np.asarray(values, np.float64)
    known = known[np.isfinite(known)]
    return float(np.median(known)) if len(known) else float("nan")


def steps_of(history: History, first: int = 0) -> tuple[int, int] | None:
    """Return the first and the last step of the `train` records from position `first` on."""
    steps = history.column("step")[first:]
    return (int(steps[0]), int(steps[-1])) if len(steps) and np.isfinite(steps[[0, -1]]).all() else None


def percent(share: float) -> str:
    return f"{100 * share:.2g}%" if share < 0.0095 else f"{100 * share:.0f}%"


def duration(seconds: float) -> str:
    """Return a time in words."""
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def listed(names: Iterable[str], most: int = 5) -> str:
    """Return names joined by commas, the first ones of many."""
    found = list(names)
    return ", ".join(found[:most]) + (f" and {len(found) - most} more" if len(found) > most else "")


def numbers_of(record: Record, key: str) -> Floats:
    """Return the list of numbers under a key of a record; none where it is no list."""
    values = record.get(key)
    return (
        np.array([as_number(each) for each in values], np.float64)
        if isinstance(values, list)
        else np.zeros(0)
    )
