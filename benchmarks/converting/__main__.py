"""Nets of torchvision and timm converted to mxtrain and back: how far the outputs of both sides are apart.

    python -m benchmarks.converting --setup     torch, torchvision and timm in an environment of their own; once
    python -m benchmarks.converting             all families: a quarter of an hour on two quiet cores
    python -m benchmarks.converting --write     and puts the table into docs/converting.md

Torch makes each net, with random weights and the running statistics of a batch, and computes its outputs in a process
of its own; it loads what comes back strictly. Differences are parts of the largest output. Exits with 1 where one is
above the bar or a class is another.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.converting import nets
from benchmarks.harness import environments, parsing, processes, tables
from mxtrain.convert.torch import torch_check

PAGE = processes.ROOT / "docs" / "converting.md"


def main() -> int:
    options = _parse()
    if options.setup:
        environments.set_up(options.envs, [nets.ENVIRONMENT])
        return 0
    python = environments.pytorch(options.envs, nets.ENVIRONMENT, "converting")
    known: dict[str, dict[str, Any]] = {}
    if options.out and options.out.exists():
        known = json.loads(options.out.read_text())
    measured = [net for family in options.families for net in nets.FAMILIES[family][: options.first]]
    for net in measured:
        if net not in known:
            with tempfile.TemporaryDirectory() as folder:
                one = known[net] = nets.measure(net, python, Path(folder))
            nets.say(f"{net}: {one['in']:.1e} here, {one['out']:.1e} back")
            if options.out:
                options.out.write_text(json.dumps(known, indent=1))
    found = {
        family: {net: known[net] for net in members if net in known}
        for family, members in nets.FAMILIES.items()
    }
    tables.write(options.write, "converting", table({family: each for family, each in found.items() if each}))
    every = [one for family in found.values() for one in family.values()]
    all_met = all(
        max(one["in"], one["out"]) <= torch_check.TOLERANCE and one["same_classes"] for one in every
    )
    return 0 if all_met else 1


def table(found: dict[str, dict[str, dict[str, Any]]]) -> str:
    """Return a row for each family, with the largest differences of its nets."""
    rows = []
    for family, measured in found.items():
        names = ", ".join(f"`{net}`" for net in measured)
        largest = (f"{max(one[way] for one in measured.values()):.1e}" for way in ("in", "out"))
        same = sum(one["same_classes"] for one in measured.values())
        rows.append([family, names, *largest, f"{same} of {len(measured)}"])
    head = (
        "family",
        "nets",
        "from torch: largest difference",
        "into torch: largest difference",
        "same classes",
    )
    return tables.markdown(head, rows, "llrrl")


def _parse() -> argparse.Namespace:
    parser = parsing.parser("converting", __doc__)
    parsing.add_environments(parser)
    parsing.add_page(parser, PAGE)
    parser.add_argument(
        "--families", nargs="+", choices=nets.FAMILIES, default=list(nets.FAMILIES), metavar="FAMILY"
    )
    parser.add_argument(
        "--out", type=Path, help="a JSON file that keeps what is measured; its nets are not measured again"
    )
    parser.add_argument(
        "--first", type=int, metavar="N", help="only so many nets of each family; left out: all"
    )
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
