"""Vectors and series that no linear model understands, packed as a user would: two spirals, and waves of any phase."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.support.data.pack_command import in_this_process


def write_spirals(folder: Path, num_train: int, num_val: int) -> None:
    """Write points on two spirals, far from the origin and in different units, with which of them for their class."""
    for seed, (name, count) in enumerate((("train", num_train), ("val", num_val), ("one", 3))):
        rng = np.random.default_rng(seed)
        arms, along = rng.integers(0, 2, count), 1 + 7 * rng.random(count) ** 0.5
        turned = along + np.pi * arms
        east, north = along * np.cos(turned), along * np.sin(turned)
        rows = zip(1e5 + 1000 * east + rng.normal(0, 200, count), north + rng.normal(0, 0.2, count), arms)
        lines = [f"{a:.8g},{b:.8g},{('left', 'right')[arm]}" for a, b, arm in rows]
        (folder / f"{name}.csv").write_text("\n".join(["east,north,arm", *lines]))
        if name != "one":
            pack(folder / f"{name}.csv", "--target", "arm")


def write_waves(folder: Path, num_train: int, num_val: int) -> None:
    """Write sines of any phase and of 16 to 64 steps, whose frequency is to be told."""
    for seed, (name, count) in enumerate((("train", num_train), ("val", num_val), ("one", 3))):
        rng = np.random.default_rng(seed)
        lengths, gains = rng.integers(16, 65, count), rng.uniform(0.5, 2, count)
        frequencies = rng.uniform(0.03, 0.2, count)
        waves = [
            gain * np.sin(2 * np.pi * (frequency * np.arange(length) + rng.random()))
            + rng.normal(0, 0.05, length)
            for length, gain, frequency in zip(lengths, gains, frequencies)
        ]
        columns: dict[str, Any] = {"wave": np.concatenate(waves).astype(np.float32), "wave_lengths": lengths}
        np.savez(
            folder / f"{name}.npz",
            **columns,
            gain=gains.reshape(-1, 1).astype(np.float32),
            y=1000 * frequencies,
        )
        if name != "one":
            pack(folder / f"{name}.npz")


def pack(source: Path, *flags: str) -> None:
    done = in_this_process("pack", source, source.with_suffix(".rec"), "--no-shuffle", *flags)
    assert done.returncode == 0, done.stderr
