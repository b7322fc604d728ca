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

from benchmarks.harness import environments, parsing
from benchmarks.harness.rounds import Neighbours
from benchmarks.loader import images, table
from benchmarks.loader.contend import CONTENDERS, Cell, Size, measure

FULL, QUICK = Size(2000, 512, 1920), Size(128, 64, 128)


def main() -> int:
    options = _parse()
    if options.setup:
        needed = {contender.environment for contender in CONTENDERS.values()}
        environments.set_up(options.envs, sorted(needed - {environments.OURS}))
        return 0
    size, rounds = (QUICK, 1) if options.quick else (FULL, options.rounds)
    neighbours = Neighbours()
    packs = images.make(options.folder, size.num_pictures)
    cells = [Cell(*cell) for cell in itertools.product(options.packs, options.batches, options.workers)]
    results: table.Results = {(name, cell): [] for cell in cells for name in options.contenders}
    for round_number, cell, name in itertools.product(range(rounds), cells, options.contenders):
        outcome = measure(name, packs[cell.pack], cell, size, options.envs)
        results[name, cell].append(outcome)
        print(f"round {round_number + 1}: {name}, {cell}: {outcome}", file=sys.stderr, flush=True)
    bars, all_met = table.render_bars(results)
    if options.json:
        print(json.dumps(table.plain(results)))
    else:
        print(f"{rounds} rounds of {size.measured} pictures, {len(os.sched_getaffinity(0))} cores;", end=" ")
        print(f"neighbours took {neighbours.share():.0%} of the CPU time used meanwhile\n")
        print(table.render(results))
        print("\nToo few pictures to judge any ratio." if options.quick else f"\n{bars}")
    return 0 if all_met and not options.quick else 1


def _parse() -> argparse.Namespace:
    parser = parsing.parser("loader", __doc__, rounds=3, has_json=True)
    parsing.add_environments(parser)
    parsing.add_folder(parser, "--folder", images.FOLDER, "where the pictures are kept")
    parser.add_argument("--quick", action="store_true")
    contenders = list(CONTENDERS)
    parser.add_argument("--contenders", nargs="+", choices=contenders, default=contenders, metavar="NAME")
    parser.add_argument("--packs", nargs="+", choices=images.PACKS, default=list(images.PACKS))
    parser.add_argument("--batches", nargs="+", choices=("float32", "uint8"), default=["float32", "uint8"])
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 2])
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
