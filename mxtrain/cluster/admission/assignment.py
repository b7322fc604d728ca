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
    peers: tuple[Any, ...] = ()  # of a job without servers: see `worker_group.Peer`
    here: tuple[int, ...] = ()  # for the process that starts its host's gateway: `gateway/routes.py`
    elsewhere: tuple[Any, ...] = ()
    is_first_on_host: bool = True  # of its workers
    several_disks: bool = False  # of the workers' run folders
    job: str = ""  # identifies the job in its checkpoints
    hosts: tuple[str, ...] = ()  # of all workers, by rank
    remarks: tuple[str, ...] = ()  # for each worker's log, about differences that are no mistake


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
    gateways = routes.plan(infos)
    servers = rendezvous.of_role(infos, "server")
    several_disks = len({info.folder for info in workers}) > 1
    peers = () if servers else _peers(infos, gateways, workers)
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
                here=gateway.here,
                elsewhere=gateway.elsewhere,
                several_disks=several_disks,
                job=job,
                hosts=tuple(each.host for each in workers),
                remarks=problems,
            )
        )
    return assignments


def _peers(
    infos: Sequence[NodeInfo], gateways: Sequence[routes.GatewayPlan], workers: Sequence[NodeInfo]
) -> tuple[Peer, ...]:
    """Return the workers by rank as they connect to each other."""
    numbers = {id(info): gateway.number for info, gateway in zip(infos, gateways)}
    hosts = list(dict.fromkeys(map(routes.namespace_of, workers)))
    return tuple(Peer(hosts.index(routes.namespace_of(info)), numbers[id(info)]) for info in workers)
