"""The flags of fit as far as the launchers need them: the store, and the numbers of workers and servers.

A Python program that calls `fit(...)` may follow them, with arguments of its own.
"""

from __future__ import annotations

import argparse
import dataclasses
from typing import Sequence

from mxtrain import config
from mxtrain.config import Run
from mxtrain.config.checks import bounds, run_checks
from mxtrain.config.components import stores
from mxtrain.config.flags import program as python_program
from mxtrain.config.flags.arguments import Parser
from mxtrain.core import command_name
from mxtrain.core.errors import UsageError


def program(script: str) -> str:
    """Return the name of a launcher: `launch/ssh`, or `mxtrain launch ssh` for who typed that."""
    command = command_name.typed("")
    return f"launch/{script}" if not command else command if script == "ps.sh" else f"{command} {script}"


def parse_fit_flags(flags: Sequence[str], program: str) -> tuple[Run, tuple[str, ...]]:
    """Return the run that these flags describe, and the flags, with a cluster's store where none is given.

    `program` is the launcher's name in messages.
    """
    flags, own_program = python_program.split(flags)
    run = config.parse(flags, f"{program} ... --")
    bounds.check(run)
    store = run.layout.kvstore
    if stores.is_cluster(store):
        return run, (*flags, *own_program)
    if any(flag.split("=")[0] == "--kvstore" for flag in flags):
        raise UsageError(f"--kvstore {store} has no roles; leave it out, or give dist_sync")
    dist = dataclasses.replace(run.layout, kvstore="dist_sync")
    return dataclasses.replace(run, layout=dist), (*flags, "--kvstore", dist.kvstore, *own_program)


def check(run: Run, flags: Sequence[str]) -> None:
    """Refuse what cannot work by its description; what a program trains is checked when it calls `fit(...)`."""
    if not python_program.split(flags)[1]:
        run_checks.check_description(run)


def add_count_arguments(parser: Parser) -> None:
    """Add -n and -s to a launcher's parser."""
    parser.add_argument("-n", "--num-workers", type=positive, help="workers of the job")
    parser.add_argument("-s", "--num-servers", type=positive, help="servers of the job")


def positive(text: str) -> int:
    """The number of 1 or more that a text says, as an argument's type."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: give 1 or more")
    return int(text)


def with_counts(arguments: argparse.Namespace, flags: Sequence[str]) -> tuple[str, ...]:
    """The flags of fit with the launcher's -n and -s after them, which win."""
    flags, own_program = python_program.split(flags)
    counts = {"--num-workers": arguments.num_workers, "--num-servers": arguments.num_servers}
    return (
        *flags,
        *(word for flag, count in counts.items() if count for word in (flag, str(count))),
        *own_program,
    )
