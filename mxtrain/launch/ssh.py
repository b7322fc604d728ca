"""A job over hosts that ssh reaches: `python -m mxtrain.launch ssh --hosts FILE -- flags of fit`.

Owns what is asked of ssh; keys, users and ports are the business of ssh's own configuration. One supervisor, here,
starts the whole job again when a part of it dies; it needs one connection for each host.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Sequence

from mxtrain.config import checks
from mxtrain.config.arguments import Parser
from mxtrain.core.errors import UsageError
from mxtrain.launch import hosts, logs, plan
from mxtrain.launch.fit_flags import add_counts, counted, described
from mxtrain.launch.hosts import Host, Job
from mxtrain.launch.plan import Process
from mxtrain.launch.supervisor import policy, supervise

PROGRAM = "launch/ssh"
# No question that nobody would answer, and no waiting for a host that has gone.
OPTIONS = ["-oBatchMode=yes", "-oConnectTimeout=10", "-oServerAliveInterval=5", "-oServerAliveCountMax=3"]
PROBE_SECONDS = 15
PORT = 9091


def launch(argv: Sequence[str], flags: Sequence[str]) -> int:
    """Run a job over the hosts of a file; its exit code."""
    asked = _parser().parse_args(argv)
    run, flags = described(counted(asked, flags), PROGRAM)
    checks.check_description(run)
    known = _read(asked.hosts)
    hosts.place(known, run.layout.num_workers, run.layout.num_servers)  # or say now what is wrong with them
    ssh = [*shlex.split(asked.ssh), "-T", *OPTIONS]
    job = Job(
        run=run,
        flags=flags,
        token=secrets.token_hex(16),
        port=asked.port,
        root=lambda used: hosts.address(used, asked.root if used[0] == known[0] else ""),
        command=lambda host: command(ssh, host, asked.python, asked.folder),
        environment={plan.ROOT_FLAG: "--port", **dict(asked.env)},
    )

    def group(generation: int) -> list[Process]:
        used = _remaining(ssh, known, run.layout.min_workers) if generation else known
        return hosts.life(job, used, generation)

    return supervise(group, policy(run))


def command(ssh: Sequence[str], host: Host, python: str, folder: str) -> list[str]:
    """What begins a share on a host, from where this was started and with the same packages. It tells no secret."""
    packages = os.environ.get("PYTHONPATH", "")
    words = [
        *(["env", f"PYTHONPATH={packages}"] if packages else []),
        python,
        "-m",
        "mxtrain.launch",
        "share",
    ]
    return [*ssh, host.target, f"cd {shlex.quote(folder)} && exec {' '.join(map(shlex.quote, words))}"]


def _remaining(ssh: Sequence[str], known: Sequence[Host], min_workers: int) -> Sequence[Host]:
    """The hosts that still answer, where they are enough to go on without the others."""
    if not min_workers:
        return known
    asked = [subprocess.Popen([*ssh, host.target, "true"], stdin=subprocess.DEVNULL) for host in known]
    used = [host for host, probe in zip(known, asked) if _answers(probe)]
    if sum(host.slots for host in used) < min_workers:
        return known
    for host in known:
        if host not in used:
            logs.say(f"{host.name} does not answer; going on without it (--min-workers {min_workers})")
    return used


def _answers(probe: subprocess.Popen[bytes]) -> bool:
    try:
        return probe.wait(PROBE_SECONDS) == 0
    except subprocess.TimeoutExpired:
        probe.kill()
        return False


def _read(path: str) -> list[Host]:
    try:
        return hosts.parse(Path(path).read_text(encoding="utf-8"), f"--hosts {path}")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise UsageError(f"--hosts {path}: {reason}; give a text file with a host to a line") from None


def _parser() -> Parser:
    parser = Parser(
        prog=PROGRAM,
        description="Run a job over several hosts; flags of mxtrain.fit, equal for all, come after --.",
    )
    parser.add_argument(
        "--hosts",
        required=True,
        help="a file with lines `host slots=N`: N workers at most, the scheduler on the first",
    )
    add_counts(parser)
    parser.add_argument(
        "--root", default="", help="the first host's address, where its name means another one here"
    )
    parser.add_argument(
        "--port", type=int, default=PORT, help="of the scheduler; restarts take it and the next seven in turn"
    )
    parser.add_argument("--ssh", default="ssh", help="as in --ssh 'ssh -p 2222 -i KEY'")
    parser.add_argument(
        "--python", default=sys.executable, help="the interpreter on the hosts; left out: this one's path"
    )
    parser.add_argument(
        "--folder", default=str(Path.cwd()), help="where to start on the hosts; left out: this folder's path"
    )
    parser.add_argument(
        "--env",
        type=_variable,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="for all processes; may be repeated",
    )
    return parser


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"'{text}' sets nothing; give NAME=VALUE")
    return name, value
