"""Loaders compared: CPU time of the whole process tree for an image, and images per second.

    python -m benchmarks.loader --setup            environments for the contenders that need one; once, about 3 GB
    python -m benchmarks.loader                    all of it: about half an hour on two quiet cores
    python -m benchmarks.loader --quick            a few batches of everything, to see that it runs

All do the same work: RandomResizedCrop to 224, flip, and either normalised float32 or uint8, in batches of 64. All
read the same two .rec files, whose pictures are the same to the coefficient. In a round every contender has its turn
in every cell; what is shown is the median of the rounds. Exit code 1 unless every bar was measured and is met.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
from pathlib import Path

from benchmarks import commands
from benchmarks.loader import environments, images, table
from benchmarks.loader.contend import CONTENDERS, Cell, Size, measure
from benchmarks.threads import cpu_seconds

FULL, QUICK = Size(2000, 512, 1920), Size(128, 64, 128)


def main() -> int:
    options = _parse()
    if options.setup:
        needed = {contender.environment for contender in CONTENDERS.values()}
        environments.set_up(options.envs, sorted(needed - {environments.OURS}))
        return 0
    size, rounds = (QUICK, 1) if options.quick else (FULL, options.rounds)
    before = cpu_seconds()
    packs = images.make(options.folder, size.num_pictures)
    cells = [Cell(*cell) for cell in itertools.product(options.packs, options.batches, options.workers)]
    results: table.Results = {(name, cell): [] for cell in cells for name in options.contenders}
    for round_number, cell, name in itertools.product(range(rounds), cells, options.contenders):
        outcome = measure(name, packs[cell.pack], cell, size, options.envs)
        results[name, cell].append(outcome)
        print(f"round {round_number + 1}: {name}, {cell}: {outcome}", file=sys.stderr, flush=True)
    ours, everyones = (after - start for start, after in zip(before, cpu_seconds()))
    bars, all_met = table.render_bars(results)
    if options.json:
        print(json.dumps(table.plain(results)))
    else:
        print(f"{rounds} rounds of {size.measured} pictures, {len(os.sched_getaffinity(0))} cores;", end=" ")
        print(f"neighbours took {1 - ours / everyones:.0%} of the CPU time used meanwhile\n")
        print(table.render(results))
        print("\nToo few pictures to judge any ratio." if options.quick else f"\n{bars}")
    return 0 if all_met and not options.quick else 1


def _parse() -> argparse.Namespace:
    parser = commands.parser("loader", __doc__)
    parser.add_argument(
        "--setup", action="store_true", help="make the environments that are missing, and end"
    )
    parser.add_argument("--envs", type=Path, default=environments.FOLDER, help="where they are")
    parser.add_argument("--folder", type=Path, default=images.FOLDER, help="where the pictures are kept")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true", help="every round's numbers")
    parser.add_argument(
        "--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS), metavar="NAME"
    )
    parser.add_argument("--packs", nargs="+", choices=images.PACKS, default=list(images.PACKS))
    parser.add_argument("--batches", nargs="+", choices=("float32", "uint8"), default=["float32", "uint8"])
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 2])
    options = parser.parse_args()
    options.envs, options.folder = options.envs.resolve(), options.folder.resolve()
    return options


if __name__ == "__main__":
    raise SystemExit(main())
