"""Masks of shapes learnt by an FCN of a ResNet-50, beside PyTorch's same net.

    python -m benchmarks.learn --setup    an environment with PyTorch; once
    python -m benchmarks.learn.masks      a quarter of an hour on two quiet cores

Both begin with the same random weights and see the same pictures in the same order at the same rates, with several
seeds. Their mean intersections over unions of pictures that were held out have to be within a point. Exit code 1 when
they are not.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from pathlib import Path
from typing import Iterator

import numpy as np

from benchmarks import curves
from benchmarks.curves import Panel
from benchmarks.harness import commands, environments, parsing
from benchmarks.harness.tables import Bar, render_bars
from benchmarks.learn.sides import OURS, TORCH, train_with_torch
from examples import masked_shapes
from mxtrain.config.flags.arguments import png_path

SIZE, NUM_TRAIN, NUM_VAL = 64, 640, 200
RECIPE = (
    *("--task", "segmentation", "--model", "fcn_resnet50_voc", "--image-size", SIZE, "--augment", "none"),
    *("--batch-size", 16, "--micro-batch", 16, "--epochs", 10, "--warmup-epochs", 1),
    *("--optimizer", "adamw", "--lr", 0.001, "--weight-decay", 0.02),
)
MOST_APART, FIRST_LOSS_APART = 0.01, 0.01  # dropout draws other numbers
SMOOTH = 10  # steps
DEADLINE_SECONDS = 3600.0  # of a run


def main() -> int:
    options = _parse()
    torch = environments.pytorch(options.envs, "learn", "learn")
    with contextlib.ExitStack() as stack:
        folder = options.runs or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        packs = _packed(folder)
        found: dict[str, list[float]] = {OURS: [], TORCH: []}
        for seed in range(options.seeds):
            for side, out in _trained(packs, folder, seed, torch):
                found[side].append(commands.last_score(out, "val_miou"))
                print(f"seed {seed}, {side}: {found[side][-1]:.4f}", file=sys.stderr, flush=True)
        panels = [_panel(folder, seed) for seed in range(options.seeds)]
        curves.draw(options.png, panels)
    lines, is_met = render_bars(bars(found, panels))
    for side, values in found.items():
        print(f"{side}: mIoU {np.mean(values):.4f} ({', '.join(f'{each:.4f}' for each in values)})")
    print(f"\n{lines}\n\n{options.png}: the curves")
    return int(not is_met)


def bars(found: dict[str, list[float]], panels: list[Panel]) -> list[Bar]:
    """Return the bars: how far apart the means over seeds are, and the first losses."""
    apart = float(abs(np.mean(found[OURS]) - np.mean(found[TORCH])))
    first = max(abs(each.curves[TORCH][0] / each.curves[OURS][0] - 1) for each in panels)
    return [
        Bar("mean mIoU, torch from mxtrain", f"{apart:.4f}", f"at most {MOST_APART}", apart <= MOST_APART),
        Bar(
            "relative difference of the first loss",
            f"{first:.1e}",
            f"at most {FIRST_LOSS_APART}",
            first <= FIRST_LOSS_APART,
        ),
    ]


def _packed(folder: Path) -> tuple[Path, Path]:
    folder.mkdir(parents=True, exist_ok=True)
    train, val = (folder / f"{name}.rec" for name in ("train", "val"))
    if not val.exists():
        masked_shapes.write(train, NUM_TRAIN, seed=0, size=SIZE)
        masked_shapes.write(val, NUM_VAL, seed=1, size=SIZE)
    return train, val


def _trained(packs: tuple[Path, Path], folder: Path, seed: int, torch: Path) -> Iterator[tuple[str, Path]]:
    """Yield each side and the folder of its run, after it has ended; runs that are there are kept."""
    ours, theirs = (folder / f"masks-{seed}-{side}" for side in (OURS, TORCH))
    sets = ("--train", packs[0], "--val", packs[1], "--seed", seed)
    commands.fit_once(ours, *RECIPE, *sets, deadline_seconds=DEADLINE_SECONDS)
    yield OURS, ours
    if commands.is_missing(theirs):
        train_with_torch(torch, ours, theirs, DEADLINE_SECONDS)
        commands.mark_ended(theirs)
    yield TORCH, theirs


def _panel(folder: Path, seed: int) -> Panel:
    found = {side: curves.losses(folder / f"masks-{seed}-{side}") for side in (OURS, TORCH)}
    return Panel(f"seed {seed}", found, smooth=SMOOTH)


def _parse() -> argparse.Namespace:
    parser = parsing.parser("learn.masks", __doc__)
    parsing.add_environments(parser, has_setup=False)
    parsing.add_folder(
        parser, "--runs", None, "keep the runs there, and do not make those again that it holds"
    )
    parser.add_argument("--seeds", type=int, default=3, help="how many (default: 3)")
    parser.add_argument("--png", type=png_path, default=Path("runs/benchmarks/masks.png"))
    options = parser.parse_args()
    options.png = options.png.resolve()
    return options


if __name__ == "__main__":
    raise SystemExit(main())
