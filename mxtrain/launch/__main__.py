"""`launch/ps.sh`, `python -m mxtrain.launch`: one role of a job on this host, or a whole job on this machine.

Parse, then late import, then one call: --help is there at once.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import platform
import re
import sys
from typing import TYPE_CHECKING, NoReturn, Sequence

from mxtrain.arguments import Parser
from mxtrain.errors import UsageError, one_line

if TYPE_CHECKING:
    from mxtrain.config import Run
    from mxtrain.launch import plan

PROGRAM = "launch/ps.sh"
LOCAL = "local"
ROLES = ("scheduler", "server", "worker")


def main(argv: Sequence[str] | None = None) -> int:
    return one_line(PROGRAM, lambda: command(list(sys.argv[1:] if argv is None else argv)))


def command(words: list[str]) -> NoReturn:
    cut = words.index("--") if "--" in words else len(words)
    given, flags = parser().parse_args(words[:cut]), tuple(words[cut + 1 :])
    raise SystemExit(local(given, flags) if given.what == LOCAL else role(given, flags))


def parser() -> Parser:
    made = Parser(
        prog=PROGRAM,
        usage="%(prog)s scheduler|server|worker --root ADDRESS:PORT -n WORKERS -s SERVERS [--index I] -- FIT FLAGS\n"
        "       %(prog)s local -n WORKERS -s SERVERS -- FIT FLAGS",
        description="Start one role of a training job on this host and keep it up, or a whole job on this machine.",
        epilog="After -- come the flags of python -m mxtrain.fit, the same for every role. In place of --root, -n and "
        "-s the variables DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT, DMLC_NUM_WORKER and DMLC_NUM_SERVER do.",
        allow_abbrev=False,
    )
    made.add_argument("what", choices=[*ROLES, LOCAL], metavar="scheduler|server|worker|local")
    made.add_argument("--root", help="where the scheduler listens: its ADDRESS:PORT, the same for every role")
    made.add_argument("-n", "--num-workers", type=count, help="workers of the job")
    made.add_argument("-s", "--num-servers", type=count, help="servers of the job")
    made.add_argument(
        "--index", type=int, help="this is worker or server number I; else the roll call numbers"
    )
    return made


def count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: give 1 or more")
    return int(text)


def local(given: argparse.Namespace, flags: tuple[str, ...]) -> int:
    from mxtrain.launch import local

    if given.root is not None or given.index is not None:
        raise UsageError("local finds its own address and numbers; leave --root and --index out")
    for name, number in (("--num-workers", given.num_workers), ("--num-servers", given.num_servers)):
        flags += (name, str(number)) if number else ()
    return local.run(*described(flags))


def role(given: argparse.Namespace, flags: tuple[str, ...]) -> int:
    """Keep one process up until its job is done, at one address over all its lives."""
    from pathlib import Path

    from mxtrain.launch import plan
    from mxtrain.launch.supervise import policy, supervise

    run, flags = described(flags)
    cluster = placed(given, run)
    name = named(given, cluster)
    logs, slot = Path(run.keep.out) / "logs", {} if given.index is None else {plan.NODE: name}

    def group(num_restarts: int, goes_on: bool) -> list[plan.Process]:
        # No generation: each host's supervisor counts for itself.
        more = {**slot, "MXTRAIN_RESTARTS": str(num_restarts)}
        argv = plan.fit(flags + (plan.GO_ON if goes_on else ()))
        return [plan.role(cluster, name, argv, logs, **more)]

    return supervise(group, policy(run))


def described(flags: tuple[str, ...]) -> tuple[Run, tuple[str, ...]]:
    """The run of these flags, and the flags; who starts a cluster's roles means a cluster's store."""
    from mxtrain import config, names

    run = config.parse(flags, f"{PROGRAM} ... --")
    store = run.layout.kvstore
    if store in names.DIST_STORES:
        return run, flags
    if any(flag.split("=")[0] == "--kvstore" for flag in flags):
        raise UsageError(f"--kvstore {store} has no roles; leave it out, or give dist_sync")
    dist = dataclasses.replace(run.layout, kvstore=names.DIST_STORES[0])
    return dataclasses.replace(run, layout=dist), (*flags, "--kvstore", dist.kvstore)


def placed(given: argparse.Namespace, run: Run) -> plan.Cluster:
    """Where the job meets, and how many it is: from the flags here, the environment, or fit's flags."""
    from mxtrain.launch import plan

    root = given.root or ":".join(
        os.environ.get(name, "") for name in ("DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT")
    )
    if root == ":":
        raise UsageError("--root is missing: give the scheduler's ADDRESS:PORT, the same on every host")
    found = re.fullmatch(r"([^:\s]+):(\d{1,5})", root)
    if not found or not 0 < int(found[2]) < 1 << 16:
        raise UsageError(f"--root {root}: give the scheduler's ADDRESS:PORT, as in 10.0.0.5:9091")
    num_workers = number("-n", given.num_workers, "DMLC_NUM_WORKER", run.layout.num_workers)
    num_servers = number("-s", given.num_servers, "DMLC_NUM_SERVER", run.layout.num_servers)
    return plan.Cluster(found[1], int(found[2]), num_workers, num_servers)


def number(flag: str, given: int | None, variable: str, of_fit: int) -> int:
    """A count that all must be told alike; fit's own flag, when left out, is 1 and says nothing."""
    text = os.environ.get(variable, "")
    found = given or (int(text) if text.isdecimal() else 0) or (of_fit if of_fit > 1 else 0)
    if not found:
        raise UsageError(f"{flag} is missing: how many the job has, the same on every host")
    return found


def named(given: argparse.Namespace, cluster: plan.Cluster) -> str:
    """With an index a name that the roll call knows, else one that tells the logs of hosts on one disk apart."""
    if given.index is None:
        return given.what if given.what == ROLES[0] else f"{given.what}-{platform.node()}"
    most = {"server": cluster.num_servers, "worker": cluster.num_workers}.get(given.what, 0)
    if not 0 <= given.index < most:
        raise UsageError(f"--index {given.index}: the job has {most} to number, from 0; or leave it out")
    return f"{given.what}-{given.index}"


if __name__ == "__main__":
    raise SystemExit(main())
