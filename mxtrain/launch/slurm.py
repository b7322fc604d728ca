"""A job under Slurm: the batch script, and what that script runs inside its allocation.

Owns what is asked of sbatch, srun and scontrol. In the allocation one supervisor, on its first node, starts a job step
on each node, and restarts all of them when a part of the job dies; before the time is up Slurm sends SIGUSR1, the
workers save a checkpoint, and the job goes back into the queue.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Mapping, Sequence

from mxtrain.config.flags.arguments import Parser
from mxtrain.core.errors import RESTART_ME, USAGE, UsageError
from mxtrain.launch import hosts, logs
from mxtrain.launch.fit_flags import add_count_arguments, check, parse_fit_flags, program, with_counts
from mxtrain.launch.hosts import PORTS_FOR_ONE_JOB, Host, HostsJob
from mxtrain.launch.plan import JOB_ID, RESTARTS
from mxtrain.launch.supervisor import restart_policy, supervise

SRUN = "python -m mxtrain.launch srun"
PORTS = range(20000, 32000)
SCONTROL_SECONDS = 30


def render(argv: Sequence[str], flags: Sequence[str]) -> str:
    """The batch script that the launcher's flags `argv` ask for; `flags` are those of fit."""
    options = parser().parse_args(argv)
    run, flags = parse_fit_flags(with_counts(options, flags), program("slurm"))
    check(run, flags)
    directives = {
        "job-name": options.name,
        "nodes": options.nodes,
        "ntasks-per-node": 1,  # a task is a host agent with all the processes of its node
        "cpus-per-task": options.cpus_per_node,
        "time": options.time,
        "signal": f"B:USR1@{options.save_seconds}",
        "output": "%x-%j.log",
        "open-mode": "append",
    }
    lines = [*(f"--{name}={value}" for name, value in directives.items()), "--requeue", *options.sbatch]
    supervisor = [options.python, "-m", "mxtrain.launch", "srun", "--requeue", "--", *flags]
    script = [
        "#!/bin/bash",
        *(f"#SBATCH {line}" for line in lines),
        "",
        f"cd {shlex.quote(options.folder)} || exit {USAGE}",
        # The supervisor takes the place of the shell, so that Slurm's signal reaches it.
        f"exec {' '.join(map(shlex.quote, supervisor))}",
    ]
    return "\n".join(script) + "\n"


def parser() -> Parser:
    parser = Parser(
        prog=program("slurm"),
        description="Print a batch script for sbatch; flags of mxtrain.fit come after --.",
    )
    add_count_arguments(parser)
    parser.add_argument("--name", default="mxtrain", help="of the job, and of its log")
    parser.add_argument("--nodes", type=int, default=1, help="the workers and servers are divided among them")
    parser.add_argument("--cpus-per-node", type=int, default=1)
    parser.add_argument(
        "--time",
        type=_time,
        default="24:00:00",
        help="the limit, after which the job goes back into the queue",
    )
    parser.add_argument("--save-seconds", type=int, default=120, help="to save a checkpoint in before that")
    parser.add_argument(
        "--sbatch",
        action="append",
        default=[],
        metavar="OPTION",
        help="as in --sbatch=--gres=gpu:4; may be repeated",
    )
    parser.add_argument("--python", default=sys.executable, help="on the nodes; left out: this one's path")
    parser.add_argument(
        "--folder", default=str(Path.cwd()), help="on the nodes; left out: this folder's path"
    )
    return parser


def _time(text: str) -> str:
    """A time as sbatch takes it: minutes, minutes:seconds, hours:minutes:seconds, days-hours and so on."""
    if not re.fullmatch(r"([0-9]+-)?[0-9]+(:[0-9]+){0,2}", text):
        raise argparse.ArgumentTypeError(
            f"'{text}' is no time for sbatch; give one such as 90, 24:00:00 or 2-12"
        )
    return text


def launch(argv: Sequence[str], flags: Sequence[str]) -> int:
    """Run a job in this allocation and return its exit code; `flags` are those of fit."""
    parser = Parser(
        prog=SRUN,
        description="Run a job on all nodes of this Slurm allocation; flags of mxtrain.fit come after --.",
    )
    parser.add_argument("--requeue", action="store_true", help="back into the queue when there is more to do")
    options = parser.parse_args(argv)
    nodes = allocated_nodes()
    run, flags = parse_fit_flags(flags, SRUN)
    check(run, flags)
    known = hosts_of(nodes, run.layout.num_workers)
    address = address_of(known[0])
    job = HostsJob(
        run=run,
        flags=flags,
        token=secrets.token_hex(16),
        port=first_port(int(os.environ["SLURM_JOB_ID"])),
        root=lambda used: hosts.scheduler_address(used, address),
        command=agent_command,
        environment=job_identity(os.environ) if options.requeue else {},
    )
    code = supervise(lambda attempt: hosts.proxy_processes(job, known, attempt), restart_policy(run, flags))
    if code == RESTART_ME and options.requeue:
        logs.print_message("back into the queue")
        _scontrol("requeue", os.environ["SLURM_JOB_ID"])
    return code


def allocated_nodes() -> str:
    """The names of the nodes of this process's allocation; UsageError outside one."""
    if "SLURM_JOB_NODELIST" not in os.environ:
        raise UsageError(
            "no Slurm allocation here; `launch slurm` prints a script for sbatch, salloc gives a shell"
        )
    return _scontrol("show", "hostnames", os.environ["SLURM_JOB_NODELIST"])


def address_of(node: Host) -> str:
    """Slurm's own address of a node; an empty text where it says none."""
    return node_address(_scontrol("show", "node", node.target))


def hosts_of(names: str, num_workers: int) -> list[Host]:
    """The nodes of an allocation, from their names, with the workers divided among them."""
    found = names.split()
    least, num_more = divmod(num_workers, len(found))
    return [Host(name, least + (number < num_more)) for number, name in enumerate(found)]


def node_address(description: str) -> str:
    """Slurm's own address of a node, from its description: the name may mean something to Slurm alone."""
    found = re.search(r"\bNodeAddr=(\S+)", description)
    return found.group(1) if found else ""


def first_port(job_id: int) -> int:
    """The scheduler's port in the first attempt: another one for each job, as several may share a node."""
    return PORTS[job_id * PORTS_FOR_ONE_JOB % len(PORTS)]


def job_identity(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment that says that a job out of the queue again, with another supervisor, is still the same."""
    return {JOB_ID: f"slurm-{environ['SLURM_JOB_ID']}", RESTARTS: environ.get("SLURM_RESTART_COUNT", "0")}


def agent_command(host: Host) -> list[str]:
    """The command that starts the host agent on a node, with all that the job has there."""
    return module_command(host, ["mxtrain.launch", "host-agent"])


def module_command(host: Host, module: Sequence[str]) -> list[str]:
    """The command that runs a module of Python's, with its arguments, on a node of this allocation."""
    where = [
        "--nodes=1",
        "--ntasks=1",
        f"--nodelist={host.target}",
        "--overlap",
        "--cpu-bind=none",
        "--unbuffered",
    ]
    return ["srun", *where, sys.executable, "-m", *module]


def _scontrol(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["scontrol", *arguments], capture_output=True, text=True, timeout=SCONTROL_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"scontrol: {error}; run this inside a Slurm allocation") from None
    if done.returncode:
        raise UsageError(f"scontrol {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout
