"""The same run three ways: mxtrain in float32, mxtrain in bfloat16, and PyTorch."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NamedTuple, Sequence

from benchmarks import curves
from benchmarks.curves import Curve, Panel
from benchmarks.harness import commands, parsing, processes
from mxtrain.config.flags.arguments import png_path

OURS, BF16, TORCH = "mxtrain", "mxtrain, bf16", "torch"
SMOOTH = 10  # steps of a curve over seeds


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


class Recipe(NamedTuple):
    """A recipe that both sides train by, over several seeds."""

    name: str
    flags: tuple[object, ...]  # those of the data too
    score: str  # of what was held out, by its name in the metrics
    deadline_seconds: float = processes.DEADLINE_SECONDS  # of a run


def train_over_seeds(recipe: Recipe, num_seeds: int, folder: Path, torch: Path) -> dict[str, list[float]]:
    """Train both sides with each seed, and return their scores; runs that the folder has are kept."""
    scores: dict[str, list[float]] = {OURS: [], TORCH: []}
    for seed in range(num_seeds):
        ours, theirs = (_run_of(recipe, folder, seed, side) for side in (OURS, TORCH))
        commands.fit_once(ours, *recipe.flags, "--seed", seed, deadline_seconds=recipe.deadline_seconds)
        _add_score(scores, recipe, seed, OURS, ours)
        if commands.is_missing(theirs):
            train_with_torch(torch, ours, theirs, recipe.deadline_seconds)
            commands.mark_ended(theirs)
        _add_score(scores, recipe, seed, TORCH, theirs)
    return scores


def _add_score(scores: dict[str, list[float]], recipe: Recipe, seed: int, side: str, run: Path) -> None:
    scores[side].append(commands.last_score(run, recipe.score))
    print(f"seed {seed}, {side}: {scores[side][-1]:.4f}", file=sys.stderr, flush=True)


def panels_of(recipe: Recipe, num_seeds: int, folder: Path) -> list[Panel]:
    """Return the losses of both sides, a panel for each seed."""
    return [
        Panel(
            f"seed {seed}",
            {side: curves.losses(_run_of(recipe, folder, seed, side)) for side in (OURS, TORCH)},
            smooth=SMOOTH,
        )
        for seed in range(num_seeds)
    ]


def _run_of(recipe: Recipe, folder: Path, seed: int, side: str) -> Path:
    return folder / f"{recipe.name}-{seed}-{side}"


def parse(name: str, about: str | None) -> argparse.Namespace:
    """Parse the flags of a benchmark over seeds."""
    parser = parsing.parser(f"learn.{name}", about)
    parsing.add_environments(parser, has_setup=False)
    parsing.add_folder(
        parser, "--runs", None, "keep the runs there, and do not make those again that it holds"
    )
    parser.add_argument("--seeds", type=int, default=3, help="how many (default: 3)")
    parser.add_argument("--png", type=png_path, default=Path(f"runs/benchmarks/{name}.png"))
    options = parser.parse_args()
    options.png = options.png.resolve()
    return options


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
