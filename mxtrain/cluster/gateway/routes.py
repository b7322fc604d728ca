"""Which process of a host starts its gateway, and what that carries: decided once all of an attempt have come.

Pure functions of their descriptions. Each process gets a number, by which ps-lite knows its unix socket on every host:
a socket of its own on its host, one of the gateway's elsewhere.
"""

from __future__ import annotations

import dataclasses
import random
from typing import TYPE_CHECKING, Sequence, Tuple

if TYPE_CHECKING:
    from mxtrain.cluster.admission.rendezvous import NodeInfo

# Above all TCP ports, which jobs on one host use as numbers; so many that two jobs of a host do not meet.
NUMBERS = range(1 << 16, 1 << 31)

Namespace = Tuple[str, str, str]


@dataclasses.dataclass(frozen=True)
class GatewayPlan:
    """One process's number, and, where it starts its host's gateway, the numbers behind this and other gateways."""

    number: int = 0
    scheduler_number: int = 0
    here: tuple[int, ...] = ()
    elsewhere: tuple[tuple[int, str, int], ...] = ()  # number, and address and port of its host's gateway


def plan(infos: Sequence[NodeInfo], has_ps_lite: bool) -> list[GatewayPlan]:
    """Return the plan of each process, in the order of `infos`.

    On one host there are no gateways, and no numbers either where ps-lite's processes take ports as theirs.
    """
    has_gateways = all(info.gateway for info in infos)
    if not has_gateways and has_ps_lite:
        return [GatewayPlan()] * len(infos)
    numbers = draw(len(infos))
    if not has_gateways:
        return [GatewayPlan(number) for number in numbers]
    scheduler = next(number for info, number in zip(infos, numbers) if info.role == "scheduler")
    starters = {namespace: _starter(namespace, infos) for namespace in map(namespace_of, infos)}
    plans = []
    for info, number in zip(infos, numbers):
        namespace = namespace_of(info)
        here, elsewhere = [], []
        for other, other_number in zip(infos, numbers):
            if namespace_of(other) == namespace:
                here.append(other_number)
            else:
                elsewhere.append((other_number, *starters[namespace_of(other)].gateway))
        is_starter = info is starters[namespace]
        routes = (tuple(here), tuple(elsewhere)) if is_starter else ()
        plans.append(GatewayPlan(number, scheduler, *routes))
    return plans


def draw(count: int) -> tuple[int, ...]:
    """Return numbers of sockets that no other job of a host has."""
    return tuple(random.SystemRandom().sample(NUMBERS, count))


def namespace_of(info: NodeInfo) -> Namespace:
    """Return what is equal for processes that can open the same unix sockets."""
    return info.host, info.boot_id, info.socket_namespace


def _starter(namespace: Namespace, infos: Sequence[NodeInfo]) -> NodeInfo:
    """Return who starts the gateway: the scheduler, who has one from the start, else who has the same port, if any."""
    scheduler = next(info for info in infos if info.role == "scheduler")
    here = [info for info in infos if namespace_of(info) == namespace]
    return min(here, key=lambda info: (info is not scheduler, info.gateway[1] != scheduler.gateway[1]))
