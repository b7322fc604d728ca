"""Assignments: the place and the common settings that each process receives at the end of the rendezvous.

Pure functions of the processes' descriptions. Owns ranks, and which workers share a host or a disk.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Sequence

from mxtrain.cluster.admission import rendezvous
from mxtrain.cluster.admission.rendezvous import NodeInfo
from mxtrain.cluster.gateway import routes
from mxtrain.cluster.worker_group import Peer


@dataclasses.dataclass(frozen=True)
class Assignment:
    """The place and the common settings that a process receives at the end of the rendezvous."""

    ps_port: int
    num_workers: int
    num_servers: int
    rank: int  # from 0 among the workers, -1 for others
    resume_step: int
    is_writer: bool
    local_workers: int
    local_servers: int = 0  # that share its host's memory
    uses_unix_sockets: bool = False
    socket_number: int = (
        0  # of this process's unix socket, where there are gateways; else it takes one itself
    )
    peers: tuple[Any, ...] = ()  # of a job without ps-lite: see `worker_group.Peer`
    owners: tuple[int, ...] = ()  # numbers of the sockets of servers that own the weights, by index
    # Numbers of the sockets at which servers take in workers' memory, by index; for a server its own.
    memory_sockets: tuple[int, ...] = ()
    threads: int = 0  # of an operator on such a server: as many as on workers, as last bits depend on them
    here: tuple[int, ...] = ()  # for the process that starts its host's gateway: `gateway/routes.py`
    elsewhere: tuple[Any, ...] = ()
    is_first_on_host: bool = True  # of its workers
    store_dir: str = ""  # where such a server keeps what it owns
    several_disks: bool = False  # of the workers' run folders
    job: str = ""  # identifies the job in its checkpoints
    hosts: tuple[str, ...] = ()  # of all workers, by rank
    remarks: tuple[str, ...] = ()  # for each worker's log, about differences that are no mistake

    @property
    def has_ps_lite(self) -> bool:
        """True where sums travel through ps-lite's servers."""
        return self.num_servers > 0 and not self.owners


def assign_ranks(
    infos: Sequence[NodeInfo], ps_port: int, resume_step: int, job: str = ""
) -> list[Assignment]:
    """Return the assignment of each process in `infos`, in their order.

    `ps_port` is where ps-lite's scheduler will listen, `resume_step` the step that all workers resume from, `job`
    the identifier that goes into checkpoints.
    """
    workers = rendezvous.workers_in_order(infos)
    namespaces = {(info.host, info.boot_id, info.socket_namespace) for info in infos}
    uses_unix_sockets = len(namespaces) == 1 and infos[0].socket_namespace != ""
    servers = rendezvous.of_role(infos, "server")
    has_owners = rendezvous.has_owners(infos)
    has_ps_lite = bool(servers) and not has_owners
    gateways = routes.plan(infos, has_ps_lite)
    several_disks = len({info.folder for info in workers}) > 1
    shares_memory = has_ps_lite and uses_unix_sockets and not gateways[0].number
    memory_sockets = routes.draw(len(servers)) if shares_memory else ()
    peers = () if has_ps_lite else _peers(infos, gateways, workers)
    owners = _owners(infos, gateways) if has_owners else ()
    assignments, problems = [], rendezvous.remarks(infos)
    for info, gateway in zip(infos, gateways):
        first_on_disk = next((each for each in workers if each.folder == info.folder), None)
        assignments.append(
            Assignment(
                ps_port=gateways[0].scheduler_number or ps_port,
                num_workers=len(workers),
                num_servers=len(servers),
                rank=workers.index(info) if info.role == "worker" else -1,
                resume_step=resume_step,
                is_writer=info is first_on_disk,
                local_workers=len(rendezvous.on_host(info, workers)),
                local_servers=len(rendezvous.on_host(info, servers)),
                is_first_on_host=info in rendezvous.on_host(info, workers)[:1],
                uses_unix_sockets=uses_unix_sockets or gateway.number > 0,
                socket_number=gateway.number,
                peers=peers,
                owners=owners,
                memory_sockets=_used(memory_sockets, info, rendezvous.in_order(servers)),
                threads=rendezvous.threads_of(workers[0], workers) if has_owners else 0,
                here=gateway.here,
                elsewhere=gateway.elsewhere,
                store_dir=str(workers[0].config.get("store_dir", "")) if has_owners else "",
                several_disks=several_disks,
                job=job,
                hosts=tuple(each.host for each in workers),
                remarks=problems,
            )
        )
    return assignments


def _used(sockets: tuple[int, ...], info: NodeInfo, servers: Sequence[NodeInfo]) -> tuple[int, ...]:
    """Return those of the servers' `sockets` that a process uses: a worker all, a server its own."""
    if info in servers:
        place = servers.index(info)
        return sockets[place : place + 1]
    return sockets if info.role == "worker" else ()


def _peers(
    infos: Sequence[NodeInfo], gateways: Sequence[routes.GatewayPlan], workers: Sequence[NodeInfo]
) -> tuple[Peer, ...]:
    """Return the workers by rank as they connect to each other."""
    numbers = {id(info): gateway.number for info, gateway in zip(infos, gateways)}
    hosts = list(dict.fromkeys(map(routes.namespace_of, workers)))
    return tuple(Peer(hosts.index(routes.namespace_of(info)), numbers[id(info)]) for info in workers)


def _owners(infos: Sequence[NodeInfo], gateways: Sequence[routes.GatewayPlan]) -> tuple[int, ...]:
    """Return the numbers of the servers' sockets, in the order of their names."""
    numbers = {id(info): gateway.number for info, gateway in zip(infos, gateways)}
    return tuple(numbers[id(info)] for info in rendezvous.in_order(rendezvous.of_role(infos, "server")))
