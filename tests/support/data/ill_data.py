"""Data for runs that are ill on purpose, and for healthy ones: digits as vectors, made-up numbers."""

from __future__ import annotations

import functools
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from mxtrain.data.packing.options import Options
from mxtrain.data.packing.pack import pack

NUM_TRAIN = 1200
_HELD = socket.socket(socket.AF_UNIX)  # a name that one process of a job can have
_BURNING: list[Any] = []


def _digits() -> tuple[Any, Any]:
    """Return scikit-learn's digits and their labels; its import takes seconds that no other test has to wait for."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    return x, y


def write(folder: Path) -> None:
    """Write the files of all runs: digits, few of them, with exchanged labels, with rare classes; and numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    x, y = _digits()
    order = np.random.default_rng(0).permutation(len(x))
    x, y = x[order].astype(np.float32), y[order]
    _write(folder, "digits", x, y)
    np.savez(folder / "few.npz", data=x[:64], label=y[:64])
    np.savez(folder / "few_val.npz", data=x[64:264], label=y[64:264])
    rng = np.random.default_rng(1)
    is_exchanged = rng.random(len(y)) < 0.1
    _write(folder, "exchanged", x, np.where(is_exchanged, (y + rng.integers(1, 10, len(y))) % 10, y))
    is_kept = (y < 7) | (rng.random(len(y)) < 0.06)
    np.savez(
        folder / "rare.npz", data=x[:NUM_TRAIN][is_kept[:NUM_TRAIN]], label=y[:NUM_TRAIN][is_kept[:NUM_TRAIN]]
    )
    is_kept = (y < 7) | (rng.random(len(y)) < 0.15)
    np.savez(
        folder / "rare_val.npz",
        data=x[NUM_TRAIN:][is_kept[NUM_TRAIN:]],
        label=y[NUM_TRAIN:][is_kept[NUM_TRAIN:]],
    )
    points = rng.normal(size=(len(y), 2)).astype(np.float32)
    _write(folder, "corners", points, (points.prod(axis=1) + 0.3 * points[:, 0] > 0).astype(np.int64))
    _write(folder, "products", points, (points.prod(axis=1) > 0).astype(np.int64))
    values = rng.normal(size=(len(y), 8)).astype(np.float32)
    targets = np.sin(values[:, 0]) + values[:, 1] * values[:, 2] + 0.1 * rng.normal(size=len(y))
    _write(folder, "numbers", values, targets.astype(np.float32))
    words = np.array(["alpha", "beta", "gamma", "delta", "and", "or", "then", "now"])
    text = " ".join(words[np.cumsum(rng.integers(1, 3, 9_000)) % len(words)])
    for name, part in (("words", text[:36_000]), ("words_val", text[36_000:42_000])):
        (folder / f"{name}.txt").write_text(part)
        pack(folder / f"{name}.txt", folder / f"{name}.rec", Options(source_type="text"))


def _write(folder: Path, name: str, x: Any, y: Any) -> None:
    np.savez(folder / f"{name}.npz", data=x[:NUM_TRAIN], label=y[:NUM_TRAIN])
    np.savez(folder / f"{name}_val.npz", data=x[NUM_TRAIN:], label=y[NUM_TRAIN:])


class Digits:
    """Digits as pairs, each of which takes a while to make."""

    def __init__(self, seconds: float):
        self._x, self._y = _digits()
        self._seconds = seconds

    def __len__(self) -> int:
        return NUM_TRAIN

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if self._seconds:
            time.sleep(self._seconds)
        return self._x[index].astype(np.float32), int(self._y[index])


def slow() -> Digits:
    return Digits(seconds=0.002)


def slow_in_one_process() -> Digits:
    """Of several workers one has the slow disk."""
    return Digits(seconds=0.002 if _is_the_one() else 0.0)


def fast_but_short_of_cpu() -> Digits:
    """Of several workers one shares its core with others, which end with it."""
    cores = sorted(os.sched_getaffinity(0))
    is_the_one = _is_the_one()
    os.sched_setaffinity(0, {cores[0] if is_the_one else cores[-1]})
    if is_the_one:
        burn = "import os; worker = os.getppid()\nwhile os.getppid() == worker: pass"
        _BURNING.extend(subprocess.Popen([sys.executable, "-c", burn]) for _ in range(2))
    return Digits(seconds=0.0)


@functools.lru_cache(maxsize=None)
def _is_the_one() -> bool:
    """Return whether this process was the first of its job to ask."""
    try:
        _HELD.bind(f"\0ill-data-{os.getppid()}")
    except OSError:
        return False
    return True
