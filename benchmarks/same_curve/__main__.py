"""Loss curves of one config computed by different devices and workers, which should be the same.

    python -m benchmarks.same_curve

Runs of `mxtrain.fit` on handwritten digits, whose epochs end with a short step. The nets are with and without
BatchNorm and dropout. Prints the largest relative difference of each run's losses from those of one device, and draws
the curves into one PNG. Exit code 1 when one is above 1e-5.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks import commands, curves
from benchmarks.curves import Curve, Panel
from mxtrain.config.arguments import png_path

BAR = 1e-5
NUM_STEPS = 60  # two epochs of 1,797 digits, each with a short step at its end, and a little
RECIPE = (
    "--image-size 32 --val-resize 32 --augment pad_crop:pad=2 --batch-size 64 --lr 0.02 "
    f"--warmup-epochs 0.5 --epochs 3 --max-steps {NUM_STEPS}"
).split()

# Mappings of the same step; the first is the reference for the others.
MAPPINGS: dict[str, tuple[str, ...]] = {
    "1 device, accumulate 4": ("--devices", "cpu", "--accumulate", "4"),
    "2 devices, accumulate 2": ("--devices", "cpu:0,1", "--accumulate", "2"),
    "3 devices, one with 2": ("--devices", "cpu:0,1,2", "--micro-batch", "16"),
    "4 devices": ("--devices", "cpu:0,1,2,3", "--accumulate", "1", "--kvstore", "local"),
    "2 workers, accumulate 2": ("--kvstore", "dist_sync", "--num-workers", "2", "--accumulate", "2"),
    "4 workers, 2 servers": (
        *("--kvstore", "dist_sync", "--num-workers", "4", "--num-servers", "2", "--accumulate", "1"),
    ),
}
# Where neither a batch's statistics nor its masks count, the cut into micro-batches must not count either.
WHOLE: dict[str, tuple[str, ...]] = {"1 device, all at once": ("--devices", "cpu", "--accumulate", "1")}
NETS: dict[str, dict[str, tuple[str, ...]]] = {
    "plain": {**MAPPINGS, **WHOLE},
    "with_dropout": MAPPINGS,
    "with_batch_norm": MAPPINGS,
    "with_both": MAPPINGS,
}


def main() -> int:
    options = _parse()
    with tempfile.TemporaryDirectory() as folder:
        rec = digits(Path(folder))
        panels = [
            Panel(net.replace("_", " "), train(net, rec, Path(folder) / net, NETS[net]), BAR)
            for net in options.nets
        ]
    curves.draw(options.png, panels)
    text, all_same = table(panels)
    print(f"{text}\n\n{options.png}: the curves")
    return 0 if all_same else 1


def digits(folder: Path) -> Path:
    commands.run(sys.executable, "examples/digits.py", folder / "images")
    return commands.pack(folder / "images", folder / "digits.rec")


def train(net: str, rec: Path, folder: Path, mappings: dict[str, tuple[str, ...]]) -> dict[str, Curve]:
    """Train a run for each mapping; return their losses."""
    found = {}
    for name, flags in mappings.items():
        out = folder / name.replace(" ", "-")
        model = ("--model", f"benchmarks.same_curve.nets:{net}")
        found[name] = curves.losses(commands.fit(out, "--train", rec, *model, *RECIPE, *flags))
        print(f"{net}, {name}: {len(found[name])} steps", file=sys.stderr, flush=True)
    return found


def table(panels: list[Panel]) -> tuple[str, bool]:
    """Return a table with a line for each run compared with the first, and whether all curves are the same."""
    lines = ["| net | run | largest relative difference | bar | |", "|---|---|---:|---:|---|"]
    all_same = True
    for panel in panels:
        (first, reference), *others = panel.curves.items()
        for name, curve in others:
            apart = float(curves.relative_difference(curve, reference).max())
            same = apart <= BAR  # not so where a loss is not a number
            all_same &= same
            verdict = "pass" if same else "FAIL"
            lines.append(f"| {panel.title} | {name} | {apart:.1e} | {BAR:g} | {verdict} |")
    return "\n".join([*lines, "", f"The reference is {first}."]), all_same


def _parse() -> argparse.Namespace:
    parser = commands.parser("same_curve", __doc__)
    parser.add_argument(
        "--nets", nargs="+", choices=NETS, default=list(NETS), metavar="NET", help=", ".join(NETS)
    )
    parser.add_argument("--png", type=png_path, default=Path("runs/benchmarks/same_curve.png"))
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
