"""The same run three ways: mxtrain in float32, mxtrain in bfloat16, and PyTorch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple, Sequence

from benchmarks import curves
from benchmarks.curves import Curve
from benchmarks.harness import commands, processes

OURS, BF16, TORCH = "mxtrain", "mxtrain, bf16", "torch"


class Task(NamedTuple):
    """A task: a pair of .rec files and a seed for each run, and the flags that all runs have."""

    name: str
    packs: Sequence[tuple[Path, Path]]
    recipe: tuple[object, ...]


def train_with_torch(
    torch: Path, ours: Path, out: Path, deadline_seconds: float = processes.DEADLINE_SECONDS
) -> None:
    """Train mxtrain's run `ours` again in PyTorch, from the weights that it began with."""
    weights = out.with_suffix(".npz")
    processes.run(sys.executable, "-m", "benchmarks.learn.start", ours, weights)
    line = (torch, "-m", "benchmarks.learn.torch_side", ours, weights, out)
    processes.run(*line, deadline_seconds=deadline_seconds)


class Trained(NamedTuple):
    losses: Curve
    accuracy: float  # of what was held out


def train(task: Task, side: str, number: int, folder: Path, torch: Path) -> Trained:
    """Train run `number` of a task, unless the folder has it, and return its results.

    PyTorch's needs mxtrain's own in the folder, and starts from its first weights.
    """
    out, ours = (folder / f"{task.name}-{number}-{which}".replace(", ", "-") for which in (side, OURS))
    if commands.is_missing(out):
        _train(task, side, number, out, ours, torch)
        commands.mark_ended(out)
    return Trained(curves.losses(out), commands.last_score(out, "val_accuracy"))


def _train(task: Task, side: str, number: int, out: Path, ours: Path, torch: Path) -> None:
    train, val = task.packs[number]
    flags = (*task.recipe, "--train", train, "--val", val, "--seed", number)
    if side == TORCH:
        train_with_torch(torch, ours, out)
    else:
        commands.fit(out, *flags, *(("--amp", "bf16") if side == BF16 else ()))
