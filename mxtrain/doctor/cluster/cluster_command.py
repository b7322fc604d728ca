"""The flags of `python -m mxtrain.doctor --hosts ...`, and the way to each of those hosts."""

from __future__ import annotations

import argparse
import functools
import shlex
import sys
from pathlib import Path
from typing import Any, Callable, Sequence

from mxtrain.config.flags.arguments import Parser
from mxtrain.core import command_name
from mxtrain.core.errors import UsageError
from mxtrain.doctor.cluster import cluster_hosts
from mxtrain.launch import hosts, slurm, ssh
from mxtrain.launch.hosts import PORTS_FOR_ONE_JOB, Host

SLURM = "slurm"
MODULE = ["mxtrain.doctor.cluster.host_probe"]
HIGHEST_PORT = (1 << 16) - PORTS_FOR_ONE_JOB


def parser() -> Parser:
    """Return the parser of these flags."""
    flags = Parser(
        prog=command_name.typed("python -m mxtrain.doctor"),
        description="Examine the hosts of a cluster, and the network between every two of them. Exits with 2 where "
        "one of them does not answer.",
    )
    flags.add_argument(
        "--hosts",
        required=True,
        help="host,host,... or a host file as of launch/ssh, or slurm for this allocation",
    )
    flags.add_argument(
        "--out", default="runs/latest", help="the run folder whose disk is examined on every host"
    )
    flags.add_argument(
        "--port", type=_port, default=ssh.PORT, help="the first of eight that launch takes in turn"
    )
    flags.add_argument("--ssh", default="ssh", help="as in --ssh 'ssh -p 2222 -i KEY'")
    flags.add_argument(
        "--python", default=sys.executable, help="the interpreter there; left out: this one's path"
    )
    flags.add_argument(
        "--folder", default=str(Path.cwd()), help="where to start there; left out: this folder's path"
    )
    flags.add_argument("--json", action="store_true", help="print all that was found as one JSON object")
    return flags


def examine(options: argparse.Namespace, say: Callable[[str], None]) -> dict[str, Any]:
    """Return what `cluster_hosts.examine` finds of the hosts that the flags name."""
    if options.hosts == SLURM:
        nodes = [Host(name) for name in slurm.allocated_nodes().split()]
        start = functools.partial(slurm.module_command, module=MODULE)
        return cluster_hosts.examine(nodes, start, slurm.address_of, options.port, options.out, say)
    channel = [*shlex.split(options.ssh), "-T", *ssh.OPTIONS]
    known = hosts_of(options.hosts)

    def command(host: Host) -> list[str]:
        return ssh.module_command(channel, host, options.python, options.folder, MODULE)

    return cluster_hosts.examine(
        known, command, cluster_hosts.numeric_address, options.port, options.out, say
    )


def hosts_of(text: str) -> Sequence[Host]:
    """Return the hosts that --hosts names: those of a file, or the names themselves."""
    path = Path(text)
    if path.is_file():
        return hosts.parse_host_file(path.read_text(encoding="utf-8", errors="replace"), f"--hosts {text}")
    if "/" in text:
        raise UsageError(f"--hosts {text}: there is no such file; give one, or host,host,...")
    return hosts.parse_host_file("\n".join(text.split(",")), f"--hosts {text}")


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= HIGHEST_PORT:
        raise argparse.ArgumentTypeError(f"'{text}' is no port for launch; give 1024 to {HIGHEST_PORT}")
    return int(text)
