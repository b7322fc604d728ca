"""Size, speed and accuracy of nets before and after `--prune`, `--average` and `--teacher`.

    python -m benchmarks.shrinking [--write] [--runs FOLDER] [--seeds 3] [--tasks digits]

Handwritten digits (`small_cnn`, 32 pixels; the seeds are folds) and pictures of shapes in textures (`thin_resnet`, 224
pixels; `benchmarks/learn/shapes.py`). A net of half the channels is made in three ways: pruned out of the trained one,
and trained from nothing for as many epochs as the two runs of that have together, alone and with the trained one as its
teacher. Speeds are of the nets of the first seed and, untrained, of three of GluonCV's at 224 pixels; in alternating
rounds, medians. `--write` puts the tables into docs/shrinking.md.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness import commands, parsing, tables
from benchmarks.harness.rounds import spread
from benchmarks.learn import folds, shapes
from benchmarks.shrinking import measure
from benchmarks.shrinking.measure import Size

PAGE = commands.ROOT / "docs" / "shrinking.md"
SPEEDS = ("ms an image, batch 1", "batch 32")
LARGE = ("resnet18_v1b", "resnet50_v1b", "vgg11_bn")
NUM_TRAIN, NUM_VAL = 2400, 300  # shapes
AVERAGE = 3
ROUNDS_OF_LARGE = 5


class Task(NamedTuple):
    """Data, and how it is learnt."""

    name: str
    recipe: tuple[object, ...]
    net: str
    half: str
    rate: float
    epochs: int
    packs: list[tuple[Path, Path]]  # for each seed: to train on, and held out


class Row(NamedTuple):
    """A net of a task, from its runs, one for each seed."""

    name: str
    runs: list[Path]


def main() -> int:
    options = _parse()
    texts = []
    for task in [make(options) for name, make in MAKE.items() if name in options.tasks]:
        texts.append(f"**{task.name}**\n\n{_table(_rows(task, options.runs, options.seeds))}")
    if "large" in options.tasks:
        texts.append(f"**GluonCV's nets**, untrained, pictures of 224 pixels\n\n{_large_nets()}")
    tables.write(options.write, "shrinking", "\n\n".join(texts))
    return 0


def _digits(options: argparse.Namespace) -> Task:
    recipe = (*commands.DIGITS, "--devices", "cpu", "--threads", 1)  # so small a net gains nothing by more
    packs = folds.make(options.runs / "folds")[: options.seeds]
    return Task("digits", recipe, "small_cnn", "benchmarks.shrinking.nets:half_cnn", 0.004, 6, packs)


def _shapes(options: argparse.Namespace) -> Task:
    packs = [shapes.make(options.folder, NUM_TRAIN, NUM_VAL)] * options.seeds
    half = "benchmarks.shrinking.nets:half_thin_resnet"
    return Task("shapes", commands.SHAPES, "benchmarks.learn.nets:thin_resnet", half, 0.008, 10, packs)


MAKE = {"digits": _digits, "shapes": _shapes}
TASKS = (*MAKE, "large")


def _rows(task: Task, folder: Path, seeds: int) -> list[Row]:
    """Train every net of the task with every seed; runs that have ended are kept."""
    more = task.epochs // 2
    found: dict[str, list[Path]] = {}
    for seed in range(seeds):

        def fit(name: str, epochs: int, *flags: object, seed: int = seed) -> Path:
            out = folder / f"{task.name}-{seed}-{name.replace(' ', '-').replace('`', '')}"
            train, val = task.packs[seed]
            data = ("--train", train, "--val", val, "--seed", seed, "--epochs", epochs)
            commands.fit_once(out, *task.recipe, "--lr", task.rate, "--model", task.net, *data, *flags)
            print(f"{out.name}: {_accuracy(out):.4f}", file=sys.stderr, flush=True)
            found.setdefault(name, []).append(out)
            return out

        tuned = ("--warmup-epochs", 0)
        whole = fit("trained", task.epochs)
        averaged = ("--average", AVERAGE, "--schedule", "linear:floor=0.3")
        fit(f"the same, `--average {AVERAGE}`", task.epochs, *averaged)
        pruned = ("--pretrained", whole, *tuned, "--prune")
        fit("`--prune 0.5`", more, *pruned, 0.5)
        fit("`--prune 0.5` with `--teacher`", more, *pruned, 0.5, "--teacher", whole)
        fit("half net from nothing", task.epochs + more, "--model", task.half)
        fit("half net with `--teacher`", task.epochs + more, "--model", task.half, "--teacher", whole)
        fit("`--prune 0.5 --prune-by weight`", more, *pruned, 0.5, "--prune-by", "weight")
        fit("`--prune 0.9 --prune-by weight`", more, *pruned, 0.9, "--prune-by", "weight")
    return [Row(name, runs) for name, runs in found.items()]


def _accuracy(run: Path) -> float:
    return commands.last_score(run, "val_accuracy")


def _table(rows: list[Row]) -> str:
    from mxtrain import runtime

    runtime.load()
    from mxtrain.train.net import build_net

    with build_net.compiling("off"):
        nets = {row.name: measure.net_of(row.runs[0]) for row in rows}
        speeds = measure.speeds(nets)
    cells = []
    for row in rows:
        file = sorted((row.runs[0] / "checkpoints").glob("step-*"))[-1] / "weights.params"
        size = measure.size_of(*nets[row.name], file)
        accuracies = [_accuracy(run) for run in row.runs]
        loss = statistics.mean(commands.last_score(run, "val_loss") for run in row.runs)
        cells.append(
            [row.name, spread(accuracies, ".2%"), f"{loss:.4f}", *_sizes(size), *_times(speeds[row.name])]
        )
    sizes = ("parameters", "not 0", "MFLOPs", "file, KB", "gzip, KB")
    return tables.markdown(["net", "accuracy (worst to best)", "loss", *sizes, *SPEEDS], cells, "lr")


def _sizes(size: Size) -> list[str]:
    return [
        f"{size.parameters:,}",
        f"{size.nonzero:,}",
        *(f"{each:.{digits}f}" for each, digits in zip(size[2:], (1, 0, 0))),
    ]


def _times(of_net: dict[int, float]) -> list[str]:
    return [f"{of_net[batch]:.2f}" for batch in measure.BATCHES]


def _large_nets() -> str:
    """Return a table of untrained nets, whole and with half of their channels, by speed."""
    from mxtrain import config, runtime

    runtime.load()
    from mxtrain.models import pruning
    from mxtrain.models.analysis import flops
    from mxtrain.models.nets import zoo
    from mxtrain.runtime import mx
    from mxtrain.tasks.classification import Classification
    from mxtrain.train.net import build_net

    rows = []
    for name in LARGE:
        groups = pruning.groups_of(zoo.build(name, 1000), name, (1, 3, 224, 224))
        run = config.Run(model=config.Model(model=name))
        task = Classification.numbered(run, 1000)
        sides = {}
        halved = pruning.widths_after(name, groups, 0.5)
        with build_net.compiling("off"):
            for side, widths in ((name, {}), (f"{name}, `--prune 0.5`", halved)):
                net = build_net.build_to_train(task, [mx.cpu()], widths).net
                for parameter in net.collect_params().values():
                    parameter.set_data(mx.nd.random.uniform(0.01, 0.02, shape=parameter.shape))
                sides[side] = (net, (3, 224, 224))
            speeds = measure.speeds(sides, ROUNDS_OF_LARGE)
        for side, (net, shape) in sides.items():
            parameters = sum(each.data().size for each in net.collect_params().values())
            computed = sum(each.forward for each in flops.of_net(net, [(1, *shape)]) or []) / 1e9
            rows.append([side, f"{parameters:,}", f"{computed:.2f}", *_times(speeds[side])])
    return tables.markdown(["net", "parameters", "GFLOPs", *SPEEDS], rows, "lr")


def _parse() -> argparse.Namespace:
    parser = parsing.parser("shrinking", __doc__)
    parsing.add_page(parser, PAGE)
    parser.add_argument("--seeds", type=int, default=3, help="how many, up to five (default: 3)")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=TASKS)
    parsing.add_folder(parser, "--folder", parsing.FOLDER, "where the shapes are kept")
    parsing.add_folder(parser, "--runs", parsing.FOLDER / "shrinking", "where runs are, which are kept")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
