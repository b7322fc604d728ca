"""Accuracies and curves of whole runs beside PyTorch's, each run a command of its own.

    python -m benchmarks.learn --setup     an environment with PyTorch; once
    python -m benchmarks.learn             half an hour on two quiet cores

- Handwritten digits by the demo's recipe: five folds, so that each digit is held out once.
- Pictures of 224 pixels in which a linear classifier finds nothing (`shapes.py`), with several seeds.

Both are learnt three times: by mxtrain, by mxtrain with `--amp bf16`, and by PyTorch from the same first weights, with
the same pixels in the same order. Accuracies are compared by their means, and have to be as near as mxtrain's runs are
to each other. The first steps of a net without ReLU and dropout are compared loss by loss. Exit code 1 when a bar is
not met.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from pathlib import Path

from benchmarks import curves
from benchmarks.curves import Panel
from benchmarks.harness import commands, environments, parsing
from benchmarks.learn import folds, judge, linear, shapes
from benchmarks.learn.judge import Results
from benchmarks.learn.sides import BF16, OURS, TORCH, Task, train
from mxtrain.config.flags.arguments import png_path

ENVIRONMENT = "learn"
TASKS = ("digits", "shapes")
NUM_SEEDS = 3  # of the shapes
NUM_TRAIN, NUM_VAL = 2400, 300
NUM_FIRST_STEPS = 50
FIRST_STEPS = (
    *commands.DIGITS,
    "--model",
    "benchmarks.same_curve.nets:with_batch_norm",
    "--max-steps",
    NUM_FIRST_STEPS,
)
FIRST_STEPS_OF = {"adamw": (), "sgd": ("--optimizer", "sgd", "--lr", 0.02)}
SMOOTH = 10  # steps


def main() -> int:
    options = _parse()
    if options.setup:
        environments.set_up(options.envs, [ENVIRONMENT])
        return 0
    torch = environments.pytorch(options.envs, ENVIRONMENT, "learn")
    with contextlib.ExitStack() as stack:
        folder = options.runs or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        digits = folds.make(folder / "digits")
        first_steps = _first_steps(digits[0], folder, torch)
        learnt, linear_found = {}, {}
        if "digits" in options.tasks:
            learnt["digits"] = _learn(Task("digits", digits, commands.DIGITS), folder, torch)
        if "shapes" in options.tasks:
            pictures = shapes.make(options.folder, NUM_TRAIN, NUM_VAL)
            seeds = [pictures] * NUM_SEEDS
            learnt["shapes"] = _learn(Task("shapes", seeds, commands.SHAPES), folder, torch)
            linear_found = linear.accuracies(*pictures)
    curves.draw(options.png, [*first_steps, *(_panel(name, results) for name, results in learnt.items())])
    lines, all_met = judge.bars(first_steps, learnt, linear_found)
    print(f"{judge.accuracies(learnt, linear_found)}\n\n{lines}\n\n{options.png}: the curves")
    return 0 if all_met else 1


def _first_steps(packs: tuple[Path, Path], folder: Path, torch: Path) -> list[Panel]:
    """Return the first losses of mxtrain and of PyTorch, a panel for each optimizer."""
    panels = []
    for optimizer, flags in FIRST_STEPS_OF.items():
        task = Task(f"first-steps-{optimizer}", [packs], (*FIRST_STEPS, *flags))
        found = {side: train(task, side, 0, folder, torch).losses for side in (OURS, TORCH)}
        panels.append(Panel(f"first steps, {optimizer}", found, judge.FIRST_STEPS_BAR))
    return panels


def _learn(task: Task, folder: Path, torch: Path) -> Results:
    """Return all runs of a task on all sides, which take turns."""
    results: Results = {OURS: [], TORCH: [], BF16: []}
    for number in range(len(task.packs)):
        for side, trained in results.items():
            trained.append(train(task, side, number, folder, torch))
            print(f"{task.name} {number}, {side}: {trained[-1].accuracy:.4f}", file=sys.stderr, flush=True)
    return results


def _panel(name: str, results: Results) -> Panel:
    return Panel(
        f"{name}, first run", {side: runs[0].losses for side, runs in results.items()}, smooth=SMOOTH
    )


def _parse() -> argparse.Namespace:
    parser = parsing.parser("learn", __doc__)
    parsing.add_environments(parser)
    parsing.add_folder(parser, "--folder", parsing.FOLDER, "where the shapes are kept")
    parsing.add_folder(
        parser, "--runs", None, "keep the runs there, and do not make those again that it holds"
    )
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=TASKS)
    parser.add_argument("--png", type=png_path, default=Path("runs/benchmarks/learn.png"))
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
