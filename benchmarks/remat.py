"""Savings and cost of `--remat`: whole `mxtrain.fit` commands with and without it, taking turns.

    python -m benchmarks.remat [--model resnet50_v1b] [--batch-size 32] [--image-size 224] [--rounds 2] [--json]

Both sides train on the same made pictures, in one micro-batch a step. Memory is the largest resident size of the
whole process, as the kernel counts it; what the process holds anyway (Python, MXNet, the loader) is in both. A step's
seconds are the median over the run, the first left out. Exits with 1 where memory is not under the bar or the losses
differ by more than 1e-6 of themselves.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.harness import commands, parsing, pictures, processes
from benchmarks.harness.rounds import in_turns, medians
from benchmarks.harness.tables import markdown

BAR = 0.75  # of the memory without


class Measured(NamedTuple):
    """One command: its peak, seconds a step, and losses."""

    megabytes: float
    seconds: float
    losses: list[float]


def measure(folder: Path, *flags: object) -> Measured:
    out = Path(tempfile.mkdtemp(dir=folder))
    ended = processes.run(sys.executable, "-m", "mxtrain.fit", *flags, "--out", out)
    steps = commands.records(out, "train")
    seconds = statistics.median(record["seconds"] for record in steps[1:])
    return Measured(ended.megabytes, seconds, [record["loss"] for record in steps])


def main() -> int:
    parser = parsing.parser("remat", __doc__, rounds=2, has_json=True)
    parser.add_argument("--model", default="resnet50_v1b")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--steps", type=int, default=4)
    options = parser.parse_args()
    if options.steps < 2:
        parser.error("--steps: at least 2, as the first is not timed")
    with tempfile.TemporaryDirectory() as text:
        folder, batch = Path(text), options.batch_size
        side, count = options.image_size, options.steps * batch
        rec = commands.pack(pictures.write(folder / "images", count, side, side, 2), folder / "t.rec")
        flags = ("--train", rec, "--model", options.model, "--batch-size", batch, "--micro-batch", batch)
        sizes = ("--image-size", options.image_size, "--max-steps", options.steps)
        common = (*flags, *sizes, "--log", "none", "--log-level", "warning")
        sides = {
            "without": lambda: measure(folder, *common),
            "with": lambda: measure(folder, *common, "--remat"),
        }
        measured = in_turns(sides, options.rounds)
    found: dict[str, Any] = {
        side: dict(zip(("megabytes", "seconds"), medians(each[:2] for each in every)))
        for side, every in measured.items()
    }
    for name, key in (("memory_ratio", "megabytes"), ("time_ratio", "seconds")):
        found[name] = found["with"][key] / found["without"][key]
    pairs = zip(*(every[0].losses for every in measured.values()))
    found["losses_apart"] = apart = max(abs(one - other) / abs(one) for one, other in pairs)
    found["bar"] = BAR
    print(json.dumps(found) if options.json else table(options, found))
    return 0 if found["memory_ratio"] <= BAR and apart <= 1e-6 else 1


def table(options: argparse.Namespace, found: dict[str, Any]) -> str:
    rows = [
        [name, f"{found[side]['megabytes']:.0f}", f"{found[side]['seconds']:.2f}"]
        for name, side in (("without", "without"), ("with `--remat`", "with"))
    ]
    rows.append(["ratio", f"{found['memory_ratio']:.2f}", f"{found['time_ratio']:.2f}"])
    return (
        f"{options.model}, {options.image_size} px, batch {options.batch_size}\n\n"
        f"{markdown(['', 'peak MB of the command', 'seconds a step'], rows, 'lr')}\n\n"
        f"losses differ by at most {found['losses_apart']:.1e} of themselves; the bar is {BAR} of the memory"
    )


if __name__ == "__main__":
    raise SystemExit(main())
