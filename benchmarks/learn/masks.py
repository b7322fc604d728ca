"""Masks of shapes learnt by an FCN of a ResNet-50, beside PyTorch's same net.

    python -m benchmarks.learn --setup    an environment with PyTorch; once
    python -m benchmarks.learn.masks      a quarter of an hour on two quiet cores

Both begin with the same random weights and see the same pictures in the same order at the same rates, with several
seeds. Their mean intersections over unions of pictures that were held out have to be within a point. Exit code 1 when
they are not.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import numpy as np

from benchmarks import curves
from benchmarks.curves import Panel
from benchmarks.harness import environments
from benchmarks.harness.tables import Bar, render_bars
from benchmarks.learn import sides
from benchmarks.learn.sides import OURS, TORCH, Recipe
from examples import masked_shapes

NAME = "masks"
SIZE, NUM_TRAIN, NUM_VAL = 64, 640, 200
RECIPE = (
    *("--task", "segmentation", "--model", "fcn_resnet50_voc", "--image-size", SIZE, "--augment", "none"),
    *("--batch-size", 16, "--micro-batch", 16, "--epochs", 10, "--warmup-epochs", 1),
    *("--optimizer", "adamw", "--lr", 0.001, "--weight-decay", 0.02),
)
MOST_APART, FIRST_LOSS_APART = 0.01, 0.01  # dropout draws other numbers
DEADLINE_SECONDS = 3600.0  # of a run


def main() -> int:
    options = sides.parse(NAME, __doc__)
    torch = environments.pytorch(options.envs, "learn", "learn")
    with contextlib.ExitStack() as stack:
        folder = options.runs or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        train, val = _packed(folder)
        recipe = Recipe(NAME, (*RECIPE, "--train", train, "--val", val), "val_miou", DEADLINE_SECONDS)
        found = sides.train_over_seeds(recipe, options.seeds, folder, torch)
        panels = sides.panels_of(recipe, options.seeds, folder)
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


if __name__ == "__main__":
    raise SystemExit(main())
