"""Loss curves of one config computed by different devices and workers, which are the same to the bit.

    python -m benchmarks.same_curve

Runs of `mxtrain.fit` on handwritten digits, whose epochs end with a short step. The nets are with and without
BatchNorm and dropout. Prints the largest relative difference of each run's losses from those of one device, and draws
the curves into one PNG. Exit code 1 when one is above its bar. That is 0, but for sums that are not exact (of a table's
rows, with --sums fast) and for another cut into micro-batches.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from types import MappingProxyType
from typing import Mapping, NamedTuple

from benchmarks import curves
from benchmarks.curves import Curve, Panel
from benchmarks.harness import commands, parsing, processes
from benchmarks.harness.tables import Bar, render_bars
from mxtrain.config.flags.arguments import png_path
from mxtrain.core.system import kernels

ROUNDING = 1e-5  # the bar of runs that add in another order, or other numbers
NUM_STEPS = 60  # two epochs of 1,797 digits, each with a short step at its end, and a little
RECIPE = (
    "--image-size 32 --val-resize 32 --augment pad_crop:pad=2 --batch-size 64 --lr 0.02 "
    f"--warmup-epochs 0.5 --epochs 3 --max-steps {NUM_STEPS} --threads 1"  # of another number come other bits
).split()

DIST = ("--kvstore", "dist_sync", "--num-workers")
# Mappings of the same step; the first is the reference for the others.
MAPPINGS: dict[str, tuple[str, ...]] = {
    "1 device, accumulate 4": ("--devices", "cpu", "--accumulate", "4"),
    "2 devices, accumulate 2": ("--devices", "cpu:0,1", "--accumulate", "2"),
    "3 devices, one with 2": ("--devices", "cpu:0,1,2", "--micro-batch", "16"),
    "4 devices": ("--devices", "cpu:0,1,2,3", "--accumulate", "1", "--kvstore", "local"),
    "2 workers, accumulate 2": (*DIST, "2", "--accumulate", "2"),
    "3 workers of 2 devices, one idle": (*DIST, "3", "--devices", "cpu:0,1", "--micro-batch", "16"),
    "4 workers, 2 servers": (*DIST, "4", "--num-servers", "2", "--accumulate", "1"),
}
# Where neither a batch's statistics nor its masks count, the cut into micro-batches must not count either.
WHOLE = "1 device, all at once"
FAST = "4 workers, --sums fast"
# Else nets as small as these stay in float32.
EVERYTHING_PAYS = processes.ROOT / "tests" / "data" / "all_narrow.json"


class Subject(NamedTuple):
    """A net of `nets.py`, what its runs have in common, and those; some are allowed a difference by `bars`."""

    net: str
    runs: dict[str, tuple[str, ...]] = MAPPINGS
    flags: tuple[str, ...] = ()
    bars: Mapping[str, float] = MappingProxyType({})


SUBJECTS = {
    "plain": Subject(
        "plain", {**MAPPINGS, WHOLE: ("--devices", "cpu", "--accumulate", "1")}, bars={WHOLE: ROUNDING}
    ),
    "with_dropout": Subject("with_dropout"),
    "with_batch_norm": Subject("with_batch_norm"),
    "with_both": Subject(
        "with_both",
        {**MAPPINGS, FAST: (*DIST, "4", "--accumulate", "1", "--sums", "fast")},
        bars={FAST: ROUNDING},
    ),
    "bfloat16": Subject("with_both", flags=("--amp", "bf16", "--amp-table", str(EVERYTHING_PAYS))),
    "table_of_rows": Subject(
        "with_table",
        {name: flags for name, flags in MAPPINGS.items() if "device" not in name or name.startswith("1 ")},
        bars=dict.fromkeys(MAPPINGS, ROUNDING),
    ),
}


def main() -> int:
    options = _parse()
    subjects = {name: SUBJECTS[name] for name in options.nets}
    problem = kernels.bf16_problem()
    if problem and subjects.pop("bfloat16", None):
        print(f"bfloat16 is left out: {problem}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        rec = digits(Path(folder))
        panels = [panel(name, subject, rec, Path(folder) / name) for name, subject in subjects.items()]
    curves.draw(options.png, panels)
    text, all_same = table(panels)
    print(f"{text}\n\n{options.png}: the curves")
    return 0 if all_same else 1


def digits(folder: Path) -> Path:
    return commands.pack_digits(folder / "images", folder / "digits.rec")


def panel(name: str, subject: Subject, rec: Path, folder: Path) -> Panel:
    """Train a run for each mapping of a subject; return their losses."""
    found: dict[str, Curve] = {}
    for run, flags in subject.runs.items():
        out = folder / run.replace(" ", "-")
        model = ("--model", f"benchmarks.same_curve.nets:{subject.net}")
        done = commands.fit(out, "--train", rec, *model, *RECIPE, *subject.flags, *flags)
        found[run] = curves.losses(done)
        print(f"{name}, {run}: {len(found[run])} steps", file=sys.stderr, flush=True)
    return Panel(name.replace("_", " "), found, bar=0.0, bars=subject.bars)


def table(panels: list[Panel]) -> tuple[str, bool]:
    """Return a table with a line for each run compared with the first, and whether all curves are the same."""
    bars = []
    for each in panels:
        (first, reference), *others = each.curves.items()
        for name, curve in others:
            apart = float(curves.relative_difference(curve, reference).max())
            bar = each.bars.get(name, 0.0)  # not met where a loss is not a number
            bars.append(Bar(f"{each.title}: {name}", f"{apart:.2g}", f"{bar:g}", apart <= bar))
    text, all_same = render_bars(bars, "largest relative difference")
    return f"{text}\n\nThe reference is {first}.", all_same


def _parse() -> argparse.Namespace:
    parser = parsing.parser("same_curve", __doc__)
    parser.add_argument(
        "--nets", nargs="+", choices=SUBJECTS, default=list(SUBJECTS), metavar="NET", help=", ".join(SUBJECTS)
    )
    parser.add_argument("--png", type=png_path, default=Path("runs/benchmarks/same_curve.png"))
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
