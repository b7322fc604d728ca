"""Packing an image folder: mxtrain's packer against MXNet's own im2rec.py, CPU time and wall time an image.

    python -m benchmarks.packing [--rounds 3]

The pictures are those of `benchmarks.loader`. Each side packs 200 of them and all 2,000; the bars are held against
what the other 1,800 cost more, so that imports do not count. What packing all 2,000 costs, with imports, is shown
beside: importing mxnet is most of it. The sides take turns, and the medians of the rounds are shown.
im2rec.py writes its list first, which is counted, and is held against mxtrain with one thread, where it needs the
least CPU time. Exit code 1 unless every bar was measured and is met.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Dict, List, NamedTuple, Union

from benchmarks.loader import images, process
from mxtrain.data.records import open_records

FEW, ALL = 200, 2000
THREADS = len(os.sched_getaffinity(0))
OURS = [sys.executable, "-m", "tools.im2rec_wrapper", "pack"]
# MXNet 1.9.1 does not import without the alias.
IM2REC = """
import pathlib, runpy, numpy
numpy.bool = bool
import mxnet
runpy.run_path(str(pathlib.Path(mxnet.__file__).parent / "tools" / "im2rec.py"), run_name="__main__")
"""


class Side(NamedTuple):
    title: str
    arguments: tuple[object, ...]
    is_ours: bool


class Cost(NamedTuple):
    cpu_milliseconds: float  # of one further image
    wall_milliseconds: float
    cpu_seconds: float  # of all, with starting
    wall_seconds: float


class Bar(NamedTuple):
    ours: str
    theirs: str
    most: float  # our CPU time over theirs


RESIZE = ("--resize", 256, "--quality", 95)
SIDES = {
    "structure": Side("**mxtrain**, as they are, `--verify structure`", ("--verify", "structure"), True),
    "decoded": Side("**mxtrain**, as they are, each decoded to check it", (), True),
    "as_is": Side("im2rec.py `--pass-through`", ("--pass-through",), False),
    "as_is_threads": Side(
        f"im2rec.py `--pass-through`, {THREADS} threads", ("--pass-through", "--num-thread", THREADS), False
    ),
    "resized": Side("**mxtrain**, short side 256, quality 95", RESIZE, True),
    "their_resized": Side("im2rec.py, short side 256, quality 95", RESIZE, False),
    "their_resized_threads": Side(
        f"im2rec.py, short side 256, quality 95, {THREADS} threads", (*RESIZE, "--num-thread", THREADS), False
    ),
}
BARS = (Bar("structure", "as_is", 0.5), Bar("resized", "their_resized", 0.7))

Outcome = Union[Cost, str]  # a string says why there is none
Results = Dict[str, List[Outcome]]


def main() -> int:
    options = _parse()
    folders = [
        images.folder_of(images.make(options.folder.resolve(), number)["plain"]) for number in (FEW, ALL)
    ]
    results: Results = {name: [] for name in SIDES}
    for round_number in range(options.rounds):
        for name, outcomes in results.items():
            outcomes.append(measure(SIDES[name], *folders))
            print(
                f"round {round_number + 1}: {SIDES[name].title}: {outcomes[-1]}", file=sys.stderr, flush=True
            )
    bars, all_met = _render_bars(results)
    print(
        f"{options.rounds} rounds, {ALL - FEW} pictures each, {THREADS} cores\n\n{_render(results)}\n\n{bars}"
    )
    return 0 if all_met else 1


def measure(side: Side, few: Path, many: Path) -> Outcome:
    """What the pictures that `many` has and `few` has not cost, each."""
    try:
        small, large = _pack(side, few), _pack(side, many)
    except RuntimeError as error:
        return f"failed: {error}"
    return Cost(*(1000 * (more - less) / (ALL - FEW) for less, more in zip(small, large)), *large)


def _pack(side: Side, source: Path) -> tuple[float, float]:
    """CPU seconds of all processes, and wall seconds; RuntimeError when it does not pack all."""
    with tempfile.TemporaryDirectory(dir=source.parent) as out:
        rec = Path(out) / "out.rec"
        theirs = [sys.executable, "-c", IM2REC, rec.with_suffix(""), source]
        lines = (
            [[*OURS, source, rec, *side.arguments]]
            if side.is_ours
            else [[*theirs, "--list", "--recursive"], [*theirs, *side.arguments]]
        )
        cpu, wall = _cpu_seconds_of_children(), time.perf_counter()
        for line in lines:
            ended = process.run(line)
            if ended.exit_code != 0:
                raise RuntimeError(f"{ended.last_error} (exit code {ended.exit_code})")
        cpu, wall = _cpu_seconds_of_children() - cpu, time.perf_counter() - wall
        num_packed, num_images = len(open_records(rec)), len(list(source.rglob("*.jpg")))
        if num_packed != num_images:
            raise RuntimeError(f"it packed {num_packed} of {num_images} pictures")
    return cpu, wall


def _cpu_seconds_of_children() -> float:
    """All that have ended, with theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def median(outcomes: list[Outcome]) -> Outcome:
    """Of the rounds; one that failed counts for all."""
    costs = [outcome for outcome in outcomes if isinstance(outcome, Cost)]
    if len(costs) < len(outcomes):
        return next(outcome for outcome in outcomes if isinstance(outcome, str))
    return Cost(*(statistics.median(values) for values in zip(*costs)))


def _render(results: Results) -> str:
    lines = ["| | CPU ms an image | wall ms an image | CPU s in all | wall s in all |", "|---|" + "---:|" * 4]
    for name, outcomes in results.items():
        cost = median(outcomes)
        numbers = [f"{number:.3f}" for number in cost] if isinstance(cost, Cost) else [cost, "", "", ""]
        lines.append(f"| {SIDES[name].title} | {' | '.join(numbers)} |")
    return "\n".join(lines)


def _render_bars(results: Results) -> tuple[str, bool]:
    """A line for each bar, and whether all were measured and are met."""
    lines = ["| CPU time over im2rec.py's | an image | bar | | in all |", "|---|---:|---:|---|---:|"]
    all_met = True
    for bar in BARS:
        ours, theirs = median(results[bar.ours]), median(results[bar.theirs])
        if isinstance(ours, Cost) and isinstance(theirs, Cost):
            ratio, in_all = (
                ours.cpu_milliseconds / theirs.cpu_milliseconds,
                ours.cpu_seconds / theirs.cpu_seconds,
            )
            met = ratio <= bar.most
            shown = f"{ratio:.2f} | {bar.most} | {'pass' if met else 'FAIL'} | {in_all:.2f}"
        else:
            met, shown = False, f"| {bar.most} | FAIL: not measured |"
        all_met &= met
        lines.append(f"| {SIDES[bar.ours].title} | {shown} |")
    return "\n".join(lines), all_met


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.packing",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--folder", type=Path, default=images.FOLDER, help="where the pictures are kept")
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
