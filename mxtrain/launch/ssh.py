"""A job over hosts that ssh reaches: `python -m mxtrain.launch ssh --hosts FILE -- flags of fit`.

Owns what is asked of ssh. Does not own keys, users and ports, which are in ssh's own configuration. One supervisor, on
this machine, restarts the whole job when a part of it dies; it needs one connection for each host.
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

from mxtrain.config.flags.arguments import Parser
from mxtrain.core.errors import UsageError
from mxtrain.launch import hosts, logs, plan
from mxtrain.launch.fit_flags import add_count_arguments, check, parse_fit_flags, program, with_counts
from mxtrain.launch.hosts import Host, HostsJob
from mxtrain.launch.plan import ProcessSpec
from mxtrain.launch.supervisor import restart_policy, supervise

# ssh asks no question, and gives up a host that does not answer.
OPTIONS = ["-oBatchMode=yes", "-oConnectTimeout=10", "-oServerAliveInterval=5", "-oServerAliveCountMax=3"]
PROBE_SECONDS = 15
PORT = 9091


def launch(argv: Sequence[str], flags: Sequence[str]) -> int:
    """Run a job over the hosts of a file and return its exit code.

    `argv` are the flags of this launcher, `flags` those of fit.
    """
    options = parser().parse_args(argv)
    run, flags = parse_fit_flags(with_counts(options, flags), program("ssh"))
    check(run, flags)
    known = _read_host_file(options.hosts)
    hosts.place_roles(known, *plan.counts(run.layout))  # refuses what does not fit
    ssh = [*shlex.split(options.ssh), "-T", *OPTIONS]
    job = HostsJob(
        run=run,
        flags=flags,
        token=secrets.token_hex(16),
        port=options.port,
        root=lambda used: hosts.scheduler_address(used, options.root if used[0] == known[0] else ""),
        command=lambda host: agent_command(ssh, host, options.python, options.folder),
        environment={plan.ROOT_FLAG: "--port", **dict(options.env)},
    )

    def processes(attempt: int) -> list[ProcessSpec]:
        used = _reachable(ssh, known, run.layout.min_workers) if attempt else known
        return hosts.proxy_processes(job, used, attempt)

    return supervise(processes, restart_policy(run, flags))


def agent_command(ssh: Sequence[str], host: Host, python: str, folder: str) -> list[str]:
    """The command that starts the host agent, in `folder` there and with the same packages. It holds no secret."""
    return module_command(ssh, host, python, folder, ["mxtrain.launch", "host-agent"])


def module_command(
    ssh: Sequence[str], host: Host, python: str, folder: str, module: Sequence[str]
) -> list[str]:
    """The command that runs a module of Python's, with its arguments, on a host as the host agent runs there."""
    packages = os.environ.get("PYTHONPATH", "")
    words = [*(["env", f"PYTHONPATH={packages}"] if packages else []), python, "-m", *module]
    return [*ssh, host.target, f"cd {shlex.quote(folder)} && exec {' '.join(map(shlex.quote, words))}"]


def _reachable(ssh: Sequence[str], known: Sequence[Host], min_workers: int) -> Sequence[Host]:
    """The hosts that still answer, where they are enough to go on without the others; else all."""
    if not min_workers:
        return known
    probes = [subprocess.Popen([*ssh, host.target, "true"], stdin=subprocess.DEVNULL) for host in known]
    used = [host for host, probe in zip(known, probes) if _answers(probe)]
    if sum(host.slots for host in used) < min_workers:
        return known
    for host in known:
        if host not in used:
            logs.print_message(
                f"{host.name} does not answer; continuing without it (--min-workers {min_workers})"
            )
    return used


def _answers(probe: subprocess.Popen[bytes]) -> bool:
    try:
        return probe.wait(PROBE_SECONDS) == 0
    except subprocess.TimeoutExpired:
        probe.kill()
        return False


def _read_host_file(path: str) -> list[Host]:
    try:
        return hosts.parse_host_file(Path(path).read_text(encoding="utf-8"), f"--hosts {path}")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise UsageError(f"--hosts {path}: {reason}; give a text file with a host to a line") from None


def parser() -> Parser:
    parser = Parser(
        prog=program("ssh"),
        description="Run a job over several hosts; flags of mxtrain.fit, equal for all, come after --.",
    )
    parser.add_argument(
        "--hosts",
        required=True,
        help="a file with lines `host slots=N`: N workers at most, the scheduler on the first",
    )
    add_count_arguments(parser)
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
