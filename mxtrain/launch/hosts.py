"""A job over several hosts as plain data: which roles run where, and what each host is told.

Pure functions. `ssh.py` and `slurm.py` find the hosts, `host_proxy.py` carries a share there, `host_agent.py` lives it.
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
from mxtrain.launch.plan import GENERATION, NODE, SCHEDULER, SERVER, WORKER, Cluster, Process

PORTS_FOR_ONE_JOB = 8  # its lives take them in turn; the next ones may be another job's or a service's


@dataclasses.dataclass(frozen=True)
class Host:
    """Where processes can run; at most `slots` of them workers."""

    target: str  # what ssh or srun calls it
    slots: int = 1

    @property
    def name(self) -> str:
        return self.target.rpartition("@")[2]


@dataclasses.dataclass(frozen=True)
class Share:
    """What one host is told of one life of the job: in private, because of the token."""

    roles: Sequence[str]
    cluster: Cluster
    flags: Sequence[str]
    token: str
    generation: int
    environment: dict[str, str]


@dataclasses.dataclass(frozen=True)
class Job:
    """What stays the same from life to life."""

    run: config.Run
    flags: Sequence[str]
    token: str
    port: int  # of the first life
    root: Callable[[Sequence[Host]], str]
    command: Callable[[Host], Sequence[str]]  # begins a share on a host
    environment: dict[str, str] = dataclasses.field(default_factory=dict)


def parse(text: str, path: str) -> list[Host]:
    """The hosts of a file with lines such as `user@host slots=2`; # begins a comment."""
    found: list[Host] = []
    for number, line in enumerate(plain_text.lines(text), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        slots = re.fullmatch(r"slots=([1-9]\d{0,3})", words[1]) if len(words) == 2 else None
        if len(words) > 2 or (len(words) == 2 and not slots) or words[0].startswith("-"):
            raise UsageError(f"{path}, line {number}: expected a line such as 'host' or 'host slots=2'")
        host = Host(words[0], int(slots.group(1)) if slots else 1)
        if host.name in {other.name for other in found}:
            raise UsageError(f"{path}, line {number}: names {host.name} again; give it one line with slots=N")
        found.append(host)
    if not found:
        raise UsageError(f"{path}: no hosts; give one to a line, the scheduler's first")
    return found


def place(hosts: Sequence[Host], num_workers: int, num_servers: int) -> dict[Host, list[str]]:
    """Roles by host: the scheduler on the first, servers in turn, workers slot by slot."""
    num_slots = sum(host.slots for host in hosts)
    if num_workers > num_slots:
        raise UsageError(
            f"--num-workers {num_workers} on hosts with {num_slots} slots; add hosts or slots=N, or take fewer"
        )
    roles: dict[Host, list[str]] = {host: [] for host in hosts}
    roles[hosts[0]].append(SCHEDULER)
    for number in range(num_servers):
        roles[hosts[number % len(hosts)]].append(f"{SERVER}-{number}")
    slots = [host for host in hosts for _ in range(host.slots)]
    for number, host in enumerate(slots[:num_workers]):
        roles[host].append(f"{WORKER}-{number}")
    return {host: names for host, names in roles.items() if names}


def address(hosts: Sequence[Host], given: str = "") -> str:
    """The numeric address at which all hosts reach the first."""
    name = given or hosts[0].name
    try:
        found = str(socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])
    except (OSError, UnicodeError) as error:
        raise UsageError(
            f"{name}: no IPv4 address ({error}); give --root ADDRESS of {hosts[0].name}"
        ) from None
    if len(hosts) > 1 and ipaddress.ip_address(found).is_loopback:
        raise UsageError(
            f"{name} is {found} here, where no other host reaches it; give --root ADDRESS of {hosts[0].name}"
        )
    return found


def to_json(share: Share) -> str:
    return json.dumps(dataclasses.asdict(share))


def from_json(text: str) -> Share:
    fields: dict[str, Any] = json.loads(text)
    return Share(**{**fields, "cluster": Cluster(**fields["cluster"])})


def processes(share: Share, logs: Path) -> list[Process]:
    """The processes of a share, on the host that has it."""
    own = {"MXTRAIN_JOB": share.token, GENERATION: str(share.generation), **share.environment}
    command = plan.fit(share.flags)
    return [plan.role(share.cluster, name, command, logs, **own, **{NODE: name}) for name in share.roles]


def life(job: Job, hosts: Sequence[Host], generation: int) -> list[Process]:
    """A process here for each host that has a share in this life."""
    wanted = job.run.layout
    # A port of its own, which a leftover of the life before cannot hold.
    port = job.port + generation % PORTS_FOR_ONE_JOB
    cluster = Cluster(job.root(hosts), port, wanted.num_workers, wanted.num_servers)
    num_workers = min(wanted.num_workers, sum(host.slots for host in hosts))
    return [
        _carrier(job, host, Share(roles, cluster, job.flags, job.token, generation, job.environment))
        for host, roles in place(hosts, num_workers, wanted.num_servers).items()
    ]


def _carrier(job: Job, host: Host, share: Share) -> Process:
    argv = (sys.executable, "-m", "mxtrain.launch", "reach", *job.command(host))
    log = Path(job.run.output.out) / "logs" / f"{host.name}.log"
    return Process(f"host {host.name}", argv, {}, log, stdin=to_json(share))
