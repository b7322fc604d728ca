"""A training step against PyTorch's: forward, loss, backward and update on a batch in memory, all cores on both sides.

    python -m benchmarks.step --setup      PyTorch in an environment of its own; once
    python -m benchmarks.step              all nets in both precisions: about half an hour on two quiet cores
    python -m benchmarks.step --nets resnet18 --amp bf16 --out FILE     a part of it, beside what the file has
    python -m benchmarks.step.overhead     what a step does besides computing

mxtrain makes the steps of `fit`. PyTorch computes the same net from the same weights in each form that it has: arrays
as they are or with channels last, by itself or with torch.compile; those much slower than its best leave after one
round. Each is a process of its own; in a round each has its turn while the others wait; what is shown are medians of
the rounds. Losses are compared, so that no side is fast and wrong. Exit code 1 unless every bar was measured and met.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from pathlib import Path

from benchmarks.harness import environments, parsing
from benchmarks.harness.rounds import Neighbours
from benchmarks.step import results, sides, table
from benchmarks.step.nets import NETS
from benchmarks.step.results import Found, Measured
from benchmarks.step.sides import Side
from mxtrain.core.system import kernels, machine

ENVIRONMENT = "torch"
MARGIN = 1.15  # a form that takes this many times as long as the best in its first round leaves


def main() -> int:
    options = _parse()
    if options.setup:
        environments.set_up(options.envs, [ENVIRONMENT])
        return 0
    torch = environments.pytorch(options.envs, ENVIRONMENT, "step")
    found = results.read(options.out) if options.out else {}
    is_same = True
    for amp in options.amp:
        peaks = sides.peaks(torch, amp)
        for net in options.nets:
            one = measure(net, amp, torch, options.rounds)._replace(peaks=peaks)
            found.setdefault(net, {})[amp] = one
            for problem in results.problems(one, amp):
                is_same = False
                print(f"{net}, {table.PRECISIONS[amp]}: {problem}", file=sys.stderr)
            print(f"{net}, {table.PRECISIONS[amp]}: {one.ratio:.2f}", file=sys.stderr, flush=True)
            if options.out:
                results.write(options.out, found)
    bars, all_met = table.render_bars(found)
    print(f"{machine.cpu()['name']}, {machine.usable_cores()} cores; oneDNN's kernels: {kernels.onednn()}\n")
    print("\n\n".join((table.render(found), table.render_forms(found), table.render_peaks(found), bars)))
    print(
        f"\nThe bars are for a CPU with AMX; this one has {'it' if kernels.onednn() == kernels.AMX else 'none'}."
    )
    return 0 if all_met and is_same else 1


def measure(name: str, amp: str, torch: Path, rounds: int) -> Found:
    """Measure a net on both sides; the peaks are left out."""
    neighbours = Neighbours()
    net = NETS[name]
    with contextlib.ExitStack() as stack:
        weights = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "weights.npz"
        ours = stack.enter_context(sides.ours(name, amp, weights))
        ours.warm_up()  # and writes the weights
        all_theirs: dict[str, Side] = {}
        in_turn = {sides.OURS: ours}
        for form in sides.forms(net):
            theirs = all_theirs[form] = stack.enter_context(sides.theirs(torch, name, amp, form, weights))
            theirs.warm_up()
            theirs.measure()
            print(f"{name}, {form}: {theirs.seconds[0]:.3f} s a step", file=sys.stderr, flush=True)
            in_turn[form] = theirs
            _leave_out_the_slow(in_turn)
        ours.measure()
        for _ in range(rounds - 1):
            for side in in_turn.values():
                side.measure()
        work = {(side.last.parameters) for side in in_turn.values()}
        assert len(work) == 1, f"{name}: not the same number of weights: {work}"
    return Found(
        *(net.samples, net.unit, ours.last.parameters, ours.last.multiplications, _measured(ours)),
        {form: _measured(side) for form, side in all_theirs.items()},
        peaks={},
        neighbours=neighbours.share(),
    )


def _leave_out_the_slow(in_turn: dict[str, Side]) -> None:
    """End those of PyTorch's forms that take much longer than the best so far: memory is for the others."""
    theirs = {form: side.seconds[0] for form, side in in_turn.items() if form != sides.OURS}
    for form, seconds in theirs.items():
        if seconds > MARGIN * min(theirs.values()):
            in_turn.pop(form).end()


def _measured(side: Side) -> Measured:
    return Measured(side.seconds, side.losses, side.last.megabytes)


def _parse() -> argparse.Namespace:
    parser = parsing.parser("step", __doc__, rounds=5)
    parsing.add_environments(parser)
    parser.add_argument("--nets", nargs="+", choices=NETS, default=list(NETS), metavar="NET")
    parser.add_argument("--amp", nargs="+", choices=table.PRECISIONS, default=list(table.PRECISIONS))
    parser.add_argument("--out", type=Path, help="a JSON file that keeps what earlier runs have measured")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
