"""Answers of trained nets, as predict computes them, against PyTorch's and ONNX Runtime's: all cores, float32.

    python -m benchmarks.step --setup      PyTorch in an environment of its own; once
    python -m benchmarks.answering         five nets, one picture and 32 at a time: about a quarter of an hour
    python -m benchmarks.answering --nets resnet50 --batches 1

PyTorch computes the same net from the same weights in each form that it has: arrays as they are or with channels last,
compiled, and compiled with weights as constants. ONNX Runtime computes what mxtrain exports. Each side is a process; in
a round each has its turn while the others wait; shown are medians. All have to answer alike. Exit code 1 unless mxtrain
is at least as fast as both everywhere.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.harness import environments, parsing
from benchmarks.harness.tables import markdown
from benchmarks.step.nets import NETS
from benchmarks.step.sides import Side
from mxtrain.core.system import kernels, machine

PICTURES = [name for name, net in NETS.items() if net.unit == "images"]
OURS, ONNX = "mxtrain", "onnxruntime"
FORMS = ("contiguous", "channels_last", "compiled, channels_last", "compiled, frozen, channels_last")
LARGEST_DIFFERENCE = 1e-3  # of the mean size of answers


def main() -> int:
    options = _parse()
    torch = environments.pytorch(options.envs, "torch", "answering")
    rows, is_met = [], True
    for net in options.nets:
        for size in options.batches:
            found = measure(net, size, torch, options.rounds)
            best = min((found[form], form) for form in FORMS)
            ratios = best[0] / found[OURS], found[ONNX] / found[OURS]
            is_met = is_met and min(ratios) >= 1
            rates = [f"{size / found[side]:.1f}" for side in (OURS, best[1], ONNX)]
            rows.append(
                (
                    f"{net}, {size}",
                    rates[0],
                    f"{rates[1]} {best[1]}",
                    rates[2],
                    *(f"{each:.2f}" for each in ratios),
                )
            )
            print(*rows[-1], file=sys.stderr, flush=True)
    print(f"{machine.cpu()['name']}, {machine.usable_cores()} cores; oneDNN's kernels: {kernels.onednn()}\n")
    names = ("net, pictures at a time", OURS, "torch, its best form", ONNX, "times torch", f"times {ONNX}")
    print(markdown(names, rows))
    return 0 if is_met else 1


def measure(net: str, size: int, torch: Path, rounds: int) -> dict[str, float]:
    """Return the seconds that a batch of this size takes on each side."""
    with contextlib.ExitStack() as stack:
        weights = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "weights.npz"
        sides: dict[str, Side] = {}
        for kind in (OURS, ONNX, *FORMS):  # the first one writes the weights
            module = "torch_side" if kind in FORMS else "mxnet_side"
            python = torch if kind in FORMS else sys.executable
            side = Side([python, "-m", f"benchmarks.answering.{module}", net, size, kind, weights], {})
            sides[kind] = stack.enter_context(side)
            side.warm_up()
        for _ in range(rounds):
            for side in sides.values():
                side.measure()
    answers = {kind: side.losses[-1] for kind, side in sides.items()}
    for kind, answer in answers.items():
        assert abs(answer / answers[OURS] - 1) < LARGEST_DIFFERENCE, (
            f"{net}: {kind} answers otherwise: {answers}"
        )
    return {kind: statistics.median(side.seconds) for kind, side in sides.items()}


def _parse() -> argparse.Namespace:
    parser = parsing.parser("answering", __doc__, rounds=3)
    parsing.add_environments(parser)
    parser.add_argument("--nets", nargs="+", choices=PICTURES, default=PICTURES, metavar="NET")
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 32])
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
