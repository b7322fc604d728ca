"""A job over several hosts as plain data: which roles run where, and what each host gets to know.

Pure functions. Owns the host file, the placement of roles, and a host's plan. Does not own the finding of hosts
(`ssh.py`, `slurm.py`), the way of a plan to its host (`host_proxy.py`) nor its execution there (`host_agent.py`).
"""

from __future__ import annotations

import dataclasses
import ipaddress
import json
import re
import socket
import sys
from pathlib import Path
from typing import Any, Callable, Sequence

from mxtrain import config
from mxtrain.core import plain_text
from mxtrain.core.errors import UsageError
from mxtrain.launch import plan
from mxtrain.launch.plan import GENERATION, NODE, SCHEDULER, SERVER, WORKER, JobSpec, ProcessSpec

PORTS_FOR_ONE_JOB = 8  # its attempts take them in turn; the next ones may be another job's or a service's


@dataclasses.dataclass(frozen=True)
class Host:
    """A machine that runs processes; at most `slots` of them are workers."""

    target: str  # what ssh or srun calls it
    slots: int = 1

    @property
    def name(self) -> str:
        return self.target.rpartition("@")[2]


@dataclasses.dataclass(frozen=True)
class HostPlan:
    """One host's part of one attempt. It travels in private, because of the token."""

    roles: Sequence[str]
    spec: JobSpec
    flags: Sequence[str]
    token: str
    attempt: int
    environment: dict[str, str]


@dataclasses.dataclass(frozen=True)
class HostsJob:
    """A job over several hosts, as far as it stays the same from attempt to attempt."""

    run: config.Run
    flags: Sequence[str]
    token: str
    port: int  # of the first attempt
    root: Callable[[Sequence[Host]], str]  # the scheduler's address
    command: Callable[[Host], Sequence[str]]  # starts the host agent there
    environment: dict[str, str] = dataclasses.field(default_factory=dict)


def parse_host_file(text: str, path: str) -> list[Host]:
    """The hosts of a file with lines such as `user@host slots=2`; # begins a comment. `path` is for messages."""
    hosts: list[Host] = []
    for number, line in enumerate(plain_text.split_lines(text), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        slots = re.fullmatch(r"slots=([1-9]\d{0,3})", words[1]) if len(words) == 2 else None
        if len(words) > 2 or (len(words) == 2 and not slots) or words[0].startswith("-"):
            raise UsageError(f"{path}, line {number}: expected a line such as 'host' or 'host slots=2'")
        host = Host(words[0], int(slots.group(1)) if slots else 1)
        if host.name in {other.name for other in hosts}:
            raise UsageError(f"{path}, line {number}: names {host.name} again; give it one line with slots=N")
        hosts.append(host)
    if not hosts:
        raise UsageError(f"{path}: no hosts; give one to a line, the scheduler's first")
    return hosts


def place_roles(hosts: Sequence[Host], num_workers: int, num_servers: int) -> dict[Host, list[str]]:
    """Return the processes' names by host: the scheduler on the first, servers in turn, workers slot by slot."""
    num_slots = sum(host.slots for host in hosts)
    if num_workers > num_slots:
        raise UsageError(
            f"--num-workers {num_workers} on hosts with {num_slots} slots; add hosts or slots=N, or take fewer"
        )
    roles: dict[Host, list[str]] = {host: [] for host in hosts}
    roles[hosts[0]].append(SCHEDULER)
    for index in range(num_servers):
        roles[hosts[index % len(hosts)]].append(f"{SERVER}-{index}")
    slots = [host for host in hosts for _ in range(host.slots)]
    for index, host in enumerate(slots[:num_workers]):
        roles[host].append(f"{WORKER}-{index}")
    return {host: names for host, names in roles.items() if names}


def scheduler_address(hosts: Sequence[Host], root: str = "") -> str:
    """The numeric address at which all hosts reach the first, by its name or by the one that is given."""
    name = root or hosts[0].name
    try:
        address = str(socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])
    except (OSError, UnicodeError) as error:
        raise UsageError(
            f"{name}: no IPv4 address ({error}); give --root ADDRESS of {hosts[0].name}"
        ) from None
    if len(hosts) > 1 and ipaddress.ip_address(address).is_loopback:
        raise UsageError(
            f"{name} is {address} here, where no other host reaches it; give --root ADDRESS of {hosts[0].name}"
        )
    return address


def to_json(host_plan: HostPlan) -> str:
    return json.dumps(dataclasses.asdict(host_plan))


def from_json(text: str) -> HostPlan:
    fields: dict[str, Any] = json.loads(text)
    return HostPlan(**{**fields, "spec": JobSpec(**fields["spec"])})


def host_processes(host_plan: HostPlan, logs: Path) -> list[ProcessSpec]:
    """The processes of a plan, to start on its host, with their logs in the folder `logs`."""
    own = {"MXTRAIN_JOB": host_plan.token, GENERATION: str(host_plan.attempt), **host_plan.environment}
    command = plan.fit_command(host_plan.flags)
    return [
        plan.node_process(host_plan.spec, name, command, logs, **own, **{NODE: name})
        for name in host_plan.roles
    ]


def proxy_processes(job: HostsJob, hosts: Sequence[Host], attempt: int) -> list[ProcessSpec]:
    """The host proxies to start here for an attempt: one for each host that has roles in it."""
    layout = job.run.layout
    _, num_servers = plan.counts(layout)
    # A port of its own, which what is left of the attempt before cannot hold.
    port = job.port + attempt % PORTS_FOR_ONE_JOB
    spec = JobSpec(job.root(hosts), port, layout.num_workers, num_servers)
    num_workers = min(layout.num_workers, sum(host.slots for host in hosts))
    return [
        _proxy(job, host, HostPlan(roles, spec, job.flags, job.token, attempt, job.environment))
        for host, roles in place_roles(hosts, num_workers, num_servers).items()
    ]


def _proxy(job: HostsJob, host: Host, host_plan: HostPlan) -> ProcessSpec:
    argv = (sys.executable, "-m", "mxtrain.launch", "host-proxy", *job.command(host))
    log = Path(job.run.output.out) / "logs" / f"{host.name}.log"
    return ProcessSpec(f"host {host.name}", argv, {}, log, stdin=to_json(host_plan))
