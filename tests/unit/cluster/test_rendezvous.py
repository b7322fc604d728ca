"""Rules of the rendezvous, on descriptions of nodes alone."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mxtrain.cluster.admission import rendezvous
from mxtrain.cluster.admission.assignment import assign_ranks
from mxtrain.cluster.admission.rendezvous import NodeInfo
from tests.support.jobs.control_plane import node_info, node_spec

SERVERS = [node_info("scheduler"), node_info("server-0")]


def test_ranks_follow_indices_whichever_came_first() -> None:
    infos = [
        node_info("worker-10"),
        node_info("scheduler"),
        node_info("worker-2", "b"),
        node_info("server-0"),
        node_info("worker-0"),
    ]
    assignments = assign_ranks(infos, 40001, 7)
    assert [each.rank for each in assignments] == [2, -1, 1, -1, 0]
    assert {(each.ps_port, each.num_workers, each.num_servers, each.resume_step) for each in assignments} == {
        (40001, 3, 1, 7)
    }
    assert [each.local_workers for each in assignments] == [2, 2, 1, 2, 2]


def test_without_indices_ranks_follow_hosts_and_process_ids() -> None:
    infos = [node_info("worker", "b", 5), node_info("worker", "a", 9), node_info("worker", "a", 10)]
    assert [each.rank for each in assign_ranks(infos, 1, -1)] == [2, 0, 1]


def test_one_worker_writes_to_each_disk() -> None:
    infos = [
        node_info("worker-1", folder="x"),
        node_info("worker-0", folder="x"),
        node_info("worker-2", folder="y"),
        *SERVERS,
    ]
    assignments = assign_ranks(infos, 1, -1)
    assert [each.is_writer for each in assignments] == [False, True, True, False, False]
    assert all(each.several_disks for each in assignments)
    assert not any(each.several_disks for each in assign_ranks([*infos[:2], *SERVERS], 1, -1))


def test_one_worker_looks_at_each_host() -> None:
    infos = [node_info("worker-2", "b"), node_info("worker-1", "a"), node_info("worker-0", "a"), *SERVERS]
    assert [each.is_first_on_host for each in assign_ranks(infos, 1, -1)][:3] == [
        True,
        False,
        True,
    ]


def test_two_hosts_of_one_name_are_two() -> None:
    twins = [node_info("worker-0"), dataclasses.replace(node_info("worker-1"), boot_id="other")]
    assert [each.local_workers for each in assign_ranks(twins, 1, -1)] == [1, 1]


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        ({}, {}, True),
        ({}, {"boot_id": "other"}, False),
        ({}, {"socket_namespace": "another /tmp"}, False),
        ({"socket_namespace": ""}, {"socket_namespace": ""}, False),
    ],
)
def test_unix_sockets_need_one_host_and_socket_namespace(
    first: dict[str, str], second: dict[str, str], shared: bool
) -> None:
    here = {"worker-0": first, "server-0": second}
    infos = [
        dataclasses.replace(node_info(node, socket_namespace="1 2 3"), **other)
        for node, other in here.items()
    ]
    assert [each.uses_unix_sockets for each in assign_ranks(infos, 1, -1)] == [shared, shared]


def test_missing_processes_are_named_if_they_have_indices() -> None:
    node = node_spec("scheduler", 1, num_workers=3, num_servers=2)
    assert rendezvous.missing(node, [*SERVERS, node_info("worker-1")]) == ["server-1", "worker-0", "worker-2"]
    assert rendezvous.missing(node, [node_info("server"), node_info("worker")]) == [
        "scheduler",
        "1 more server",
        "2 more workers",
    ]
    all_here = [*SERVERS, node_info("server-7"), *(node_info(f"worker-{n}") for n in (4, 5, 6))]
    assert rendezvous.missing(node, all_here) == []


def test_min_workers_and_a_server_are_enough() -> None:
    assert rendezvous.is_enough([*SERVERS, node_info("worker-1")], min_workers=1, num_servers=1)
    assert not rendezvous.is_enough([*SERVERS, node_info("worker-1")], min_workers=0, num_servers=1)
    assert not rendezvous.is_enough([*SERVERS, node_info("worker-1")], min_workers=2, num_servers=1)
    assert not rendezvous.is_enough(
        [node_info("scheduler"), node_info("worker-1")], min_workers=1, num_servers=1
    )


def test_min_workers_alone_are_enough_without_servers() -> None:
    here = [node_info("scheduler"), node_info("worker-1")]
    assert rendezvous.is_enough(here, min_workers=1, num_servers=0)
    assert not rendezvous.is_enough(here, min_workers=0, num_servers=0)
    assert not rendezvous.is_enough(here, min_workers=2, num_servers=0)
    assert not rendezvous.is_enough(here[1:], min_workers=1, num_servers=0), "no scheduler"


def test_without_servers_workers_know_each_other_by_rank() -> None:
    infos = [node_info("worker-2", "b"), node_info("worker-1"), node_info("scheduler"), node_info("worker-0")]
    assignments = assign_ranks(infos, 1, -1)
    assert {each.num_servers for each in assignments} == {0}
    (peers,) = {each.peers for each in assignments}
    assert [peer.host for peer in peers] == [0, 0, 1]
    numbers = {each.rank: each.socket_number for each in assignments}
    assert [peer.number for peer in peers] == [numbers[rank] for rank in range(3)]
    assert len(set(numbers.values())) == 4 and min(numbers.values()) > 65535, "no port, and none of another"


def test_peers_share_memory_where_they_share_sockets() -> None:
    apart = [node_info("worker-0", socket_namespace="a"), node_info("worker-1", socket_namespace="b")]
    assert [peer.host for peer in assign_ranks([*apart, node_info("scheduler")], 1, -1)[0].peers] == [0, 1]


def test_with_servers_there_are_no_peers() -> None:
    infos = [*SERVERS, node_info("worker-0"), node_info("worker-1")]
    assert [each.peers for each in assign_ranks(infos, 1, -1)] == [()] * 4


OWNED = {"kvstore": "dist_sync", "update": "servers"}


def test_servers_that_own_weights_are_known_to_all_by_index() -> None:
    infos = [
        node_info("worker-1", config=OWNED, threads=3),
        node_info("server-1"),
        node_info("scheduler"),
        node_info("server-0"),
        node_info("worker-0", config=OWNED, threads=3),
    ]
    assignments = assign_ranks(infos, 1, -1)
    (owners,) = {each.owners for each in assignments}
    assert owners == (assignments[3].socket_number, assignments[1].socket_number)
    assert len({each.socket_number for each in assignments}) == 5 and min(owners) > 65535, "no port"
    assert {(each.has_ps_lite, each.threads) for each in assignments} == {(False, 3)}, (
        "threads of the workers"
    )


@pytest.mark.parametrize("flags", [{**OWNED, "kvstore": "dist_async"}, {**OWNED, "update": "workers"}, {}])
def test_other_servers_are_those_of_ps_lite(flags: dict[str, str]) -> None:
    infos = [*SERVERS, node_info("worker-0", config=flags), node_info("worker-1", config=flags)]
    assert {(each.has_ps_lite, each.owners) for each in assign_ranks(infos, 1, -1)} == {(True, ())}


def memory_sockets(*infos: NodeInfo) -> dict[str, tuple[int, ...]]:
    return {info.node: each.memory_sockets for info, each in zip(infos, assign_ranks(infos, 1, -1))}


def test_servers_take_in_the_memory_of_workers_of_their_host() -> None:
    nodes = ("server-1", "scheduler", "worker-1", "server-0", "worker-0")
    found = memory_sockets(*(node_info(node, socket_namespace="a") for node in nodes))
    first, second = found["worker-0"]
    assert min(first, second) > 65535 and first != second
    assert found == {
        **{"scheduler": (), "server-0": (first,), "server-1": (second,)},
        **{"worker-0": (first, second), "worker-1": (first, second)},
    }


@pytest.mark.parametrize(("host", "spaces"), [("b", "aa"), ("a", "ab"), ("a", ("", ""))])
def test_no_memory_is_taken_in_from_other_hosts_or_over_tcp(host: str, spaces: Sequence[str]) -> None:
    infos = [node_info(node, socket_namespace=spaces[0]) for node in ("scheduler", "server-0", "worker-0")]
    last = node_info("worker-1", host, socket_namespace=spaces[1])
    assert set(memory_sockets(*infos, last).values()) == {()}


def test_over_hosts_peers_have_the_numbers_that_gateways_carry() -> None:
    infos = [
        node_info("scheduler", gateway=("10.0.0.1", 9091)),
        node_info("worker-0", gateway=("10.0.0.1", 9091)),
        node_info("worker-1", "b", gateway=("10.0.0.2", 9091)),
    ]
    first, _, second = assign_ranks(infos, 1, -1)
    own, others = first.peers
    assert [number for number, *_ in first.elsewhere] == [others.number]
    assert own.number in first.here and second.here == (others.number,)
    assert {number for number, *_ in second.elsewhere} == set(first.here)


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ({"config": {"lr": 0.1}}, {"config": {"lr": 0.2}}, "has --lr 0.2, but worker-0 (a, pid 1) has 0.1"),
        ({"config": {"lr": 0.1}}, {}, "has --lr None"),
        ({"data": {"train": "f00"}}, {"data": {"train": "ba7"}}, "has --train ba7"),
        (
            {"config": {"amp_table": "f00"}},
            {"config": {"amp_table": "ba7"}},
            "has --amp-table ba7, but worker-0 (a, pid 1) has f00; these are hashes of its times: give all one file",
        ),
        ({"versions": {"numpy": "1.24.4"}}, {"versions": {"numpy": "1.26.4"}}, "has numpy 1.26.4"),
    ],
)
def test_a_difference_is_named_with_both_values(
    first: dict[str, Any], second: dict[str, Any], reason: str
) -> None:
    found = rendezvous.disagreement(
        [node_info("worker-1", **second), *SERVERS, node_info("worker-0", **first)]
    )
    assert found is not None and found.startswith("worker-1 (a, pid 1) has ") and reason in found
    assert "; " in found and "\n" not in found
    assert (
        rendezvous.disagreement([node_info("worker-1", **first), *SERVERS, node_info("worker-0", **first)])
        is None
    )


def test_a_server_needs_the_same_versions_of_what_it_has() -> None:
    worker = node_info("worker-0", versions={"mxnet": "1.9.1", "simplejpeg": "1.9"})
    assert rendezvous.disagreement([worker, node_info("server-0", versions={"mxnet": "1.9.1"})]) is None
    found = rendezvous.disagreement([worker, node_info("server-0", versions={"mxnet": "1.9.0"})])
    assert found is not None and "server-0 (a, pid 1) has mxnet 1.9.0" in found


AMX, ZEN = ({"openblas": "Haswell", "onednn": "AVX512_CORE_AMX"}, {"openblas": "Zen", "onednn": "AVX2"})


def test_hosts_with_other_kernels_are_told_and_not_refused() -> None:
    infos = [*SERVERS, node_info("worker-1", kernels=ZEN), node_info("worker-0", kernels=AMX)]
    (said,) = rendezvous.remarks(infos)
    assert said.startswith("worker-1 ") and "OpenBLAS Zen, oneDNN AVX2 and worker-0 " in said
    assert rendezvous.disagreement(infos) is None
    assert {each.remarks for each in assign_ranks(infos, 1, 0)} == {(said,)}
    assert rendezvous.remarks([*infos[:-1], node_info("worker-0", kernels=ZEN)]) == ()
    assert rendezvous.remarks(SERVERS) == ()


@pytest.mark.parametrize(
    ("workers", "said"),
    [
        ([{"host": "a", "cores": 4}, {"host": "b", "cores": 4}], ""),
        ([{"host": "a", "cores": 8}, {"host": "a", "cores": 8}, {"host": "b", "cores": 4}], ""),
        ([{"host": "a", "cores": 8}, {"host": "b", "cores": 4, "threads": 8}], ""),
        (
            [{"host": "a", "cores": 4}, {"host": "b", "cores": 4}, {"host": "b", "cores": 4}],
            "worker-1 (b, pid 1) computes with 2 OpenMP threads and worker-0 (a, pid 1) computes with 4 OpenMP "
            "threads: last bits depend on which of them computes what; --threads 2 makes them alike",
        ),
        (
            [{"host": "a", "cores": 4, "threads": 1}, {"host": "b", "cores": 4}],
            "--threads 1 makes them alike",
        ),
    ],
)
def test_workers_with_unlike_numbers_of_threads_are_told_and_not_refused(
    workers: list[dict[str, Any]], said: str
) -> None:
    infos = [node_info(f"worker-{rank}", kernels=ZEN, **each) for rank, each in enumerate(workers)]
    assert rendezvous.disagreement([*SERVERS, *infos]) is None
    found = rendezvous.remarks([*SERVERS, *infos])
    assert len(found) == bool(said) and said in "".join(found)


def test_a_node_info_survives_its_message() -> None:
    whole = node_info(
        "worker-0",
        versions={"a": "1"},
        config={"lr": 0.1},
        checkpoints=(1, 2),
        savers=("a", ""),
        failed=(3, "why"),
    )
    message = json.loads(json.dumps(rendezvous.join_message(node_spec("worker-0", 1), whole)))
    assert rendezvous.parse_node_info(message["node_info"]) == whole


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from([field.name for field in dataclasses.fields(NodeInfo)])


@given(JSON | st.dictionaries(FIELDS, JSON))
def test_what_is_no_node_info_is_a_value_error(content: Any) -> None:
    with pytest.raises(ValueError):
        rendezvous.parse_node_info(content)


@given(FIELDS, JSON)
def test_a_node_info_with_a_wrong_field_is_one_nevertheless_or_a_value_error(name: str, value: Any) -> None:
    try:
        found = rendezvous.parse_node_info({**dataclasses.asdict(node_info("worker-0")), name: value})
    except ValueError:
        return
    assert str(found).isprintable()
    assign_ranks([found, node_info("worker-1")], 1, -1)
    rendezvous.failure([found])
