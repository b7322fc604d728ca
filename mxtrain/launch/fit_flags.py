"""What the launchers have to know of fit's flags."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Sequence

from mxtrain import config
from mxtrain.config import Run, bounds, names
from mxtrain.config.arguments import Parser
from mxtrain.core.errors import UsageError


def described(flags: Sequence[str], program: str) -> tuple[Run, tuple[str, ...]]:
    """The run of these flags, and the flags; who starts a cluster's roles means a cluster's store."""
    run = config.parse(flags, f"{program} ... --")
    bounds.check(run)
    store = run.layout.kvstore
    if store in names.DIST_STORES:
        return run, tuple(flags)
    if any(flag.split("=")[0] == "--kvstore" for flag in flags):
        raise UsageError(f"--kvstore {store} has no roles; leave it out, or give dist_sync")
    dist = dataclasses.replace(run.layout, kvstore=names.DIST_STORES[0])
    return dataclasses.replace(run, layout=dist), (*flags, "--kvstore", dist.kvstore)


def add_counts(parser: Parser) -> None:
    parser.add_argument("-n", "--num-workers", type=count, help="workers of the job")
    parser.add_argument("-s", "--num-servers", type=count, help="servers of the job")


def count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: give 1 or more")
    return int(text)


def counted(given: argparse.Namespace, flags: Sequence[str]) -> tuple[str, ...]:
    """The flags with the launcher's counts, which win."""
    counts = {"--num-workers": given.num_workers, "--num-servers": given.num_servers}
    return (*flags, *(word for flag, number in counts.items() if number for word in (flag, str(number))))
