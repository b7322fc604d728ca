"""Which process starts a host's gateway, and what that carries: each host one, each process elsewhere once."""

from __future__ import annotations

import random

import pytest

from mxtrain.cluster.admission.assignment import assign_ranks
from mxtrain.cluster.admission.rendezvous import NodeInfo
from mxtrain.cluster.gateway import routes

PORT = 9091


def process(name: str, host: int, port: int) -> NodeInfo:
    address = f"10.0.0.{host}"
    return NodeInfo(
        name.split("-")[0], name, f"h{host}", "boot", 7, socket_namespace="0 1 2", gateway=(address, port)
    )


def job(rng: random.Random) -> list[NodeInfo]:
    """Processes on one to four hosts, of which the scheduler's has the port and at most one elsewhere."""
    names = ["scheduler", *(f"server-{n}" for n in range(rng.randint(1, 4)))]
    names += [f"worker-{n}" for n in range(rng.randint(1, 5))]
    hosts = [0, *(rng.randrange(4) for _ in names[1:])]
    infos, has_port = [process("scheduler", 0, PORT)], {0}
    for name, host in zip(names[1:], hosts[1:]):
        first = host not in has_port and rng.random() < 0.7
        has_port |= {host} if first else set()
        infos.append(process(name, host, PORT if first else rng.randint(30000, 60000)))
    rng.shuffle(infos)
    return infos


@pytest.mark.parametrize("seed", range(50))
def test_each_host_has_one_gateway_that_knows_all_others(seed: int) -> None:
    infos = job(random.Random(seed))
    plans = routes.plan(infos, has_ps_lite=True)
    numbers = [plan.number for plan in plans]
    assert len(set(numbers)) == len(infos) and all(number in routes.NUMBERS for number in numbers)
    assert {plan.scheduler_number for plan in plans} == {
        number for info, number in zip(infos, numbers) if info.role == "scheduler"
    }
    starters = [(info, plan) for info, plan in zip(infos, plans) if plan.here]
    assert sorted(info.host for info, _ in starters) == sorted({info.host for info in infos})
    gateways = {info.host: info.gateway for info, _ in starters}
    for starter, plan in starters:
        others = {info.gateway[1] for info in infos if info.host == starter.host}
        assert starter.role == "scheduler" or PORT not in others or starter.gateway[1] == PORT
        assert set(plan.here) == {n for info, n in zip(infos, numbers) if info.host == starter.host}
        assert set(plan.elsewhere) == {
            (number, *gateways[info.host])
            for info, number in zip(infos, numbers)
            if info.host != starter.host
        }


def test_containers_of_one_host_are_hosts_of_their_own() -> None:
    infos = [process("scheduler", 0, PORT), process("server-0", 0, 40000), process("worker-0", 0, 40001)]
    apart = [*infos[:2], NodeInfo(**{**vars(infos[2]), "socket_namespace": "0 1 3"})]
    assert [bool(plan.here) for plan in routes.plan(infos, has_ps_lite=True)] == [True, False, False]
    assert [bool(plan.here) for plan in routes.plan(apart, has_ps_lite=True)] == [True, False, True]


def test_a_job_on_one_host_has_no_gateways() -> None:
    infos = [process("scheduler", 0, PORT), process("server-0", 0, 40000), process("worker-0", 0, 40001)]
    inside = [NodeInfo(**{**vars(info), "gateway": ()}) for info in infos]
    assert {plan.number for plan in routes.plan(inside, has_ps_lite=True)} == {0}
    assert [each.ps_port for each in assign_ranks(inside, 4711, -1)] == [4711] * 3
    with_gateways = assign_ranks(infos, 0, -1)
    assert {each.ps_port for each in with_gateways} == {with_gateways[0].socket_number}
    assert all(each.uses_unix_sockets for each in with_gateways)
