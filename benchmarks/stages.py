"""Speed and memory of `--stages 2`: whole `mxtrain.fit` commands on one device, in two stages, and on two devices.

    python -m benchmarks.stages [--model resnet50_v1b] [--image-size 96] [--rounds 3]

All train on the same made pictures with one OpenMP thread a device, so one device has one core and the others two. What
one device computes a second is the measure: two stages compute at most 2m / (m + 1) times as much, of m micro-batches
a step. Memory is the largest resident size of the whole process, which on CPUs holds all devices. Exits with 1 where
stages have other weights than one device, or the bar is missed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness import commands, parsing, pictures, processes, tables
from benchmarks.harness.processes import ROOT
from benchmarks.harness.rounds import in_turns
from benchmarks.harness.tables import Bar

SIDES = {
    "one device": ["--devices", "cpu"],
    "two stages": ["--stages", "2", "--devices", "cpu:0,1"],
    "two devices, each all of it": ["--devices", "cpu:0,1"],
}
ONE, STAGES, _ = SIDES
SPEED_BAR = 1.4  # of one device
WARM_STEPS = 2


class Measured(NamedTuple):
    """One command: its peak in megabytes, pictures a second, and the bytes of its last weights."""

    megabytes: float
    speed: float
    weights: bytes


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory() as text:
        folder, side = Path(text), options.image_size
        count = options.batch_size * options.steps
        train = commands.pack(pictures.write(folder / "images", count, side, side, 2), folder / "t.rec")
        turns = {name: lambda name=name: _measure(folder, train, options, name) for name in SIDES}
        found = in_turns(turns, options.rounds, to_and_fro=True)
    if len({each.weights for every in found.values() for each in every}) > 1:
        raise SystemExit("the sides have unlike weights")
    memory = {name: statistics.median(each.megabytes for each in every) for name, every in found.items()}
    speed = {name: statistics.median(each.speed for each in every) for name, every in found.items()}
    rows = [
        [name, f"{speed[name]:.1f}", f"{speed[name] / speed[ONE]:.2f}", f"{memory[name]:.0f}"]
        for name in SIDES
    ]
    table = tables.markdown(
        ["", "pictures a second", "of one device", "peak MB of the command"], rows, "lrrr"
    )
    faster = speed[STAGES] / speed[ONE]
    bar = Bar(
        "speed of two stages, of one device's", f"{faster:.2f}", f"at least {SPEED_BAR}", faster >= SPEED_BAR
    )
    bars, is_met = tables.render_bars([bar])
    parts = options.batch_size // options.micro_batch
    title = f"`{options.model}`, {side} pixels, {parts} micro-batches of {options.micro_batch} a step"
    tables.write(options.write, "stages", f"{title}, {options.rounds} rounds:\n\n{table}\n\n{bars}")
    return int(not is_met)


def _options() -> argparse.Namespace:
    parser = parsing.parser("stages", __doc__, rounds=3)
    parser.add_argument("--model", default="resnet50_v1b")
    parser.add_argument("--image-size", type=int, default=96)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--micro-batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=6)
    parsing.add_page(parser, ROOT / "docs" / "models.md")
    options: argparse.Namespace = parser.parse_args()
    return options


def _measure(folder: Path, train: Path, options: argparse.Namespace, name: str) -> Measured:
    out = Path(tempfile.mkdtemp(dir=folder))
    flags = (
        "--train",
        train,
        "--model",
        options.model,
        "--image-size",
        options.image_size,
        "--augment",
        "none",
    )
    sizes = (
        "--batch-size",
        options.batch_size,
        "--micro-batch",
        options.micro_batch,
        "--max-steps",
        options.steps,
    )
    quiet = ("--threads", 1, "--sample-steps", 0, "--log", "none", "--log-level", "warning", "--out", out)
    ended = processes.run(sys.executable, "-m", "mxtrain.fit", *flags, *sizes, *quiet, *SIDES[name])
    seconds = [record["seconds"] for record in commands.records(out, "train")[WARM_STEPS:]]
    (weights,) = out.glob(f"checkpoints/*{options.steps}/weights.params")
    return Measured(ended.megabytes, options.batch_size / statistics.median(seconds), weights.read_bytes())


if __name__ == "__main__":
    raise SystemExit(main())
