"""Packing an image folder: CPU and wall time an image of mxtrain's packer and of MXNet's im2rec.py.

    python -m benchmarks.packing [--rounds 3]

The pictures are those of `benchmarks.loader`. The bars apply to the CPU time of all that is run to pack them (im2rec.py
writes a list first). mxnet's import and exit are most of im2rec.py's, so the time of an image between imports and exit
is shown too: in a large set that matters most, and there `--pass-through`, which checks nothing and does not wait for
the disk, is the cheaper one. The sides take turns, and the medians of the rounds are shown. im2rec.py is compared with
one thread, where it needs the least CPU time. Exit code 1 unless every bar was measured and is met.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Dict, List, NamedTuple, Union

from benchmarks.harness import parsing, processes, tables
from benchmarks.harness.rounds import in_turns, medians
from benchmarks.harness.tables import Bar, markdown
from benchmarks.loader import images
from mxtrain.data.records.record_file import open_records

NUM_PICTURES = 2000
DEADLINE_SECONDS = 300
THREADS = len(os.sched_getaffinity(0))
MARK = "mark:"  # CPU seconds of this process and its ended children, clock
MARKS = f"""
import atexit, resource, time

def mark():
    own, ended = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    print("{MARK}", own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime, time.perf_counter(), flush=True)

mark()
atexit.register(mark)
"""
OURS = f"""
import runpy
import mxtrain.data.packing.pack
{MARKS}
runpy.run_module("tools.im2rec_wrapper", run_name="__main__")
"""
# MXNet 1.9.1 does not import without the alias.
IM2REC = f"""
import pathlib, runpy, numpy
numpy.bool = bool
import mxnet
{MARKS}
runpy.run_path(str(pathlib.Path(mxnet.__file__).parent / "tools" / "im2rec.py"), run_name="__main__")
"""


class Side(NamedTuple):
    title: str
    arguments: tuple[object, ...]
    is_ours: bool


class Cost(NamedTuple):
    cpu_milliseconds: float  # an image, without imports and exit
    wall_milliseconds: float
    cpu_seconds: float  # of all
    wall_seconds: float


class Most(NamedTuple):
    ours: str
    theirs: str
    most: float  # our whole command's CPU time over theirs


PLAIN = ("--no-restart-intervals",)
RESIZE = ("--resize", 256, "--quality", 95)
SIDES = {
    "structure": Side(
        "**mxtrain**, as they are, `--verify structure`", ("--verify", "structure", *PLAIN), True
    ),
    "decoded": Side("**mxtrain**, as they are, each decoded to check it", PLAIN, True),
    "default": Side("**mxtrain**, by default: each read to its end, and restart markers put in", (), True),
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
BARS = (Most("structure", "as_is", 0.5), Most("resized", "their_resized", 0.7))

Outcome = Union[Cost, str]  # a string says why there is none
Results = Dict[str, List[Outcome]]


def main() -> int:
    options = _parse()
    source = images.folder_of(images.make(options.folder, NUM_PICTURES)["plain"])
    results: Results = in_turns(
        {name: lambda side=side: measure(side, source) for name, side in SIDES.items()}, options.rounds
    )
    bars, all_met = _render_bars(results)
    print(
        f"{options.rounds} rounds, {NUM_PICTURES} pictures, {THREADS} cores\n\n{_render(results)}\n\n{bars}"
    )
    return 0 if all_met else 1


def measure(side: Side, source: Path) -> Outcome:
    """Measure packing all pictures of a folder, with all the commands that it takes."""
    with tempfile.TemporaryDirectory(dir=source.parent) as out:
        rec = Path(out) / "out.rec"
        if side.is_ours:
            commands = [[OURS, "pack", source, rec, *side.arguments]]
        else:
            theirs = [IM2REC, rec.with_suffix(""), source]
            commands = [[*theirs, "--list", "--recursive"], [*theirs, *side.arguments]]
        costs = []
        for command in commands:
            clock = time.perf_counter()
            ended = processes.attempt(
                sys.executable, "-c", *command, deadline_seconds=DEADLINE_SECONDS, is_neutral=True
            )
            if ended.exit_code != 0:
                return f"failed: {ended.last_error} (exit code {ended.exit_code})"
            whole = ended.cpu_seconds, time.perf_counter() - clock
            lines = [line.split()[1:] for line in ended.output.splitlines() if line.startswith(MARK)]
            imported, packed = ([float(number) for number in line] for line in lines)
            costs.append((packed[0] - imported[0], packed[1] - imported[1], *whole))
        num_packed, num_images = len(open_records(rec)), len(list(source.rglob("*.jpg")))
        if num_packed != num_images:
            return f"failed: it packed {num_packed} of {num_images} pictures"
    cpu, wall, whole_cpu, whole_wall = map(sum, zip(*costs))
    cost = Cost(1000 * cpu / num_images, 1000 * wall / num_images, whole_cpu, whole_wall)
    print(f"{side.title}: {cost}", file=sys.stderr, flush=True)
    return cost


def median(outcomes: list[Outcome]) -> Outcome:
    """Return the median of the rounds; one that failed counts for all."""
    costs = [outcome for outcome in outcomes if isinstance(outcome, Cost)]
    if len(costs) < len(outcomes):
        return next(outcome for outcome in outcomes if isinstance(outcome, str))
    return Cost(*medians(costs))


def _render(results: Results) -> str:
    rows = []
    for name, outcomes in results.items():
        cost = median(outcomes)
        numbers = [f"{number:.3f}" for number in cost] if isinstance(cost, Cost) else [cost, "", "", ""]
        rows.append([SIDES[name].title, *numbers])
    return markdown(["", "CPU ms an image", "wall ms an image", "CPU s in all", "wall s in all"], rows, "lr")


def _render_bars(results: Results) -> tuple[str, bool]:
    """Return a table with a line for each bar, and whether all were measured and are met."""
    return tables.render_bars([_judged(bar, results) for bar in BARS], "CPU time over im2rec.py's")


def _judged(bar: Most, results: Results) -> Bar:
    ours, theirs = median(results[bar.ours]), median(results[bar.theirs])
    what, most = SIDES[bar.ours].title, f"at most {bar.most}"
    if not (isinstance(ours, Cost) and isinstance(theirs, Cost)):
        return Bar(what, None, most)
    in_all = ours.cpu_seconds / theirs.cpu_seconds
    an_image = ours.cpu_milliseconds / theirs.cpu_milliseconds
    return Bar(what, f"{in_all:.2f}, of an image {an_image:.2f}", most, in_all <= bar.most)


def _parse() -> argparse.Namespace:
    parser = parsing.parser("packing", __doc__, rounds=3)
    parsing.add_folder(parser, "--folder", images.FOLDER, "where the pictures are kept")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
