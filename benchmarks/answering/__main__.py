"""Answers of trained nets, as evaluate and predict compute them, against PyTorch's and ONNX Runtime's, in float32.

    python -m benchmarks.step --setup      PyTorch in an environment of its own; once
    python -m benchmarks.answering         nine nets, one sample and 32 at a time: about 30 minutes
    python -m benchmarks.answering --nets resnet50 --batches 1

A sample is a picture, or a sequence of tokens. PyTorch computes the same net from the same weights in each form that it
has: arrays as they are or with channels last, compiled, and compiled with weights as constants. ONNX Runtime computes
what mxtrain exports. Each side is a process on all cores; in a round each has its turn while the others wait; shown are
medians. All have to answer alike. Exit code 1 unless mxtrain is at least as fast as PyTorch's best form and as ONNX
Runtime everywhere. A second table has what evaluations compute while a net is trained: weights change from one to the
next there, so PyTorch's form of constants is beside its best other one, and beside the rates are the milliseconds that
an evaluation takes to begin with other weights.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Iterable, List, Mapping, Tuple

from benchmarks.harness import environments, parsing
from benchmarks.harness.tables import markdown
from benchmarks.step.nets import NETS
from benchmarks.step.sides import Side, compiled_before, forms
from mxtrain.core.system import kernels, machine

ANSWERING = [name for name, net in NETS.items() if not net.ids]
OURS = ANSWERS, IN_TRAINING, BEGUN, ONNX = "mxtrain", "in training", "begun", "onnxruntime"
FROZEN = "compiled, frozen, channels_last"
LARGEST_DIFFERENCE = 1e-3  # of the mean size of answers


def main() -> int:
    options = _parse()
    torch = environments.pytorch(options.envs, "torch", "answering")
    tables: dict[str, list[list[str]]] = {ANSWERS: [], IN_TRAINING: []}
    is_met = True
    for net in options.nets:
        for size in options.batches:
            found = measure(net, size, torch, options.rounds)
            for ours, row_of in ((ANSWERS, answers_row), (IN_TRAINING, training_row)):
                rates, ratios = row_of({side: size / seconds for side, seconds in found.items()})
                is_met = is_met and (ours != ANSWERS or min(ratios) >= 1)
                row = [f"{net}, {size}", *rates, *(f"{each:.2f}" for each in ratios)]
                if ours == IN_TRAINING:
                    row.append(f"{1000 * (found[BEGUN] - found[IN_TRAINING]):.0f}")
                tables[ours].append(row)
                print(ours, *row, file=sys.stderr, flush=True)
    print(f"{machine.cpu()['name']}, {machine.usable_cores()} cores; oneDNN's kernels: {kernels.onednn()}\n")
    torch_and_onnx = ("torch, its best form", ONNX, "times torch", f"times {ONNX}")
    heads: dict[str, tuple[str, ...]] = {ANSWERS: (ANSWERS,), IN_TRAINING: (IN_TRAINING, "torch, frozen")}
    for ours, rows in tables.items():
        last = ("to begin, ms",) if ours == IN_TRAINING else ()
        print(markdown(("net, samples at a time", *heads[ours], *torch_and_onnx, *last), rows), end="\n\n")
    return 0 if is_met else 1


Row = Tuple[List[str], List[float]]  # samples a second, and how many times as fast we are


def answers_row(rates: Mapping[str, float]) -> Row:
    """Return the rate of answers, PyTorch's in its best form and ONNX Runtime's, and ours over these two."""
    return _row(rates, ANSWERS, rates.keys() - {*OURS})


def training_row(rates: Mapping[str, float]) -> Row:
    """Return the rate in training, PyTorch's with frozen weights, and in its best other form, and as `answers_row`."""
    (ours, *others), ratios = _row(rates, IN_TRAINING, rates.keys() - {*OURS, FROZEN})
    return [ours, f"{rates[FROZEN]:.1f}", *others], ratios


def _row(rates: Mapping[str, float], ours: str, forms: Iterable[str]) -> Row:
    best = max(forms, key=rates.__getitem__)
    shown = [f"{rates[ours]:.1f}", f"{rates[best]:.1f} {best}", f"{rates[ONNX]:.1f}"]
    return shown, [rates[ours] / rates[each] for each in (best, ONNX)]


def measure(net: str, size: int, torch: Path, rounds: int) -> dict[str, float]:
    """Return the seconds that a batch of this size takes on each side."""
    with contextlib.ExitStack() as stack:
        weights = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "weights.npz"
        sides: dict[str, Side] = {}
        for kind in (*OURS, *forms(NETS[net]), FROZEN):  # the first one writes the weights
            is_ours = kind in OURS
            module, python = ("mxnet_side", sys.executable) if is_ours else ("torch_side", torch)
            line = [python, "-m", f"benchmarks.answering.{module}", net, size, kind, weights]
            side = Side(line, {} if is_ours else compiled_before(torch))
            sides[kind] = stack.enter_context(side)
            side.warm_up()
        for _ in range(rounds):
            for side in sides.values():
                side.measure()
    answers = {kind: side.losses[-1] for kind, side in sides.items()}
    for kind, answer in answers.items():
        assert abs(answer / answers[ANSWERS] - 1) < LARGEST_DIFFERENCE, (
            f"{net}: {kind} answers otherwise: {answers}"
        )
    return {kind: statistics.median(side.seconds) for kind, side in sides.items()}


def _parse() -> argparse.Namespace:
    parser = parsing.parser("answering", __doc__, rounds=3)
    parsing.add_environments(parser)
    parser.add_argument("--nets", nargs="+", choices=ANSWERING, default=ANSWERING, metavar="NET")
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 32])
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
