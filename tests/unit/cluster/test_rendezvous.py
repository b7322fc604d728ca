"""The judgement of the roll call, on cards alone."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mxtrain.cluster import rendezvous
from mxtrain.cluster.environment import NodeSpec
from mxtrain.cluster.rendezvous import NodeInfo
from tests.support.control_plane import place


def card(node: str, host: str = "a", pid: int = 1, **more: Any) -> NodeInfo:
    return NodeInfo(node.split("-")[0], node, host, boot_id="", pid=pid, **more)


HELPERS = [card("scheduler"), card("server-0")]


def test_ranks_follow_slots_whoever_came_first() -> None:
    cards = [card("worker-10"), card("scheduler"), card("worker-2", "b"), card("server-0"), card("worker-0")]
    told = rendezvous.divide(cards, 40001, 7)
    assert [go.rank for go in told] == [2, -1, 1, -1, 0]
    assert {(go.engine_port, go.num_workers, go.num_servers, go.resume_step) for go in told} == {
        (40001, 3, 1, 7)
    }
    assert [go.local_workers for go in told] == [2, 2, 1, 2, 2]


def test_without_slots_hosts_and_processes_count() -> None:
    cards = [card("worker", "b", 5), card("worker", "a", 9), card("worker", "a", 10)]
    assert [go.rank for go in rendezvous.divide(cards, 1, -1)] == [2, 0, 1]


def test_one_worker_writes_to_each_disk() -> None:
    cards = [
        card("worker-1", folder="x"),
        card("worker-0", folder="x"),
        card("worker-2", folder="y"),
        *HELPERS,
    ]
    told = rendezvous.divide(cards, 1, -1)
    assert [go.is_writer for go in told] == [False, True, True, False, False]
    assert all(go.several_disks for go in told)
    assert not any(go.several_disks for go in rendezvous.divide([*cards[:2], *HELPERS], 1, -1))


def test_two_machines_of_one_name_are_two() -> None:
    twins = [card("worker-0"), dataclasses.replace(card("worker-1"), boot_id="other")]
    assert [go.local_workers for go in rendezvous.divide(twins, 1, -1)] == [1, 1]


@pytest.mark.parametrize(
    ("first", "second", "meet"),
    [
        ({}, {}, True),
        ({}, {"boot_id": "other"}, False),
        ({}, {"sockets": "another /tmp"}, False),
        ({"sockets": ""}, {"sockets": ""}, False),
    ],
)
def test_unix_sockets_are_for_processes_that_all_have_the_same(
    first: dict[str, str], second: dict[str, str], meet: bool
) -> None:
    here = {"worker-0": first, "server-0": second}
    cards = [dataclasses.replace(card(node, sockets="1 2 3"), **other) for node, other in here.items()]
    assert [go.over_sockets for go in rendezvous.divide(cards, 1, -1)] == [meet, meet]


@pytest.mark.parametrize(
    ("disks", "step"),
    [
        ([("x", ()), ("y", ())], rendezvous.FRESH),
        ([("x", (5, 10)), ("y", (5,))], 5),
        ([("x", (5, 10)), ("y", (5, 10))], 10),
        ([("x", (10,)), ("x", (10,))], 10),
        ([("x", (5, 10)), ("y", (5, 10)), ("z", (1, 5))], 5),
    ],
)
def test_all_go_on_from_the_newest_step_that_all_have(
    disks: list[tuple[str, tuple[int, ...]]], step: int
) -> None:
    workers = [card(f"worker-{n}", folder=folder, checkpoints=has) for n, (folder, has) in enumerate(disks)]
    for is_restart in (False, True):
        assert rendezvous.resume_step(workers, place("scheduler", 1, is_restart=is_restart)) == step


def test_a_bare_disk_is_told_what_to_copy() -> None:
    workers = [card("worker-0", folder="x"), card("worker-1", folder="y", checkpoints=(5, 10))]
    reason = rendezvous.resume_step(workers, place("scheduler", 1))
    assert isinstance(reason, str)
    assert reason.startswith("worker-0 (a, pid 1) has no checkpoint") and "step-00000010" in reason


SECOND_LIFE = place("scheduler", 1, job="ours", is_restart=True)
FIRST_LIFE = dataclasses.replace(SECOND_LIFE, is_restart=False)  # of a job that has the name of an older one


def savers(resume: str, *disks: dict[int, str]) -> list[NodeInfo]:
    """A worker on each disk, which holds steps of these jobs."""
    return [
        card(
            f"worker-{number}",
            folder=str(number),
            config={"resume": resume},
            checkpoints=tuple(disk),
            savers=tuple(disk.values()),
        )
        for number, disk in enumerate(disks)
    ]


@pytest.mark.parametrize("resume", ["auto", "never", "elsewhere/step-00000003"])
def test_a_death_in_the_first_checkpoint_of_all_is_a_beginning(resume: str) -> None:
    workers = savers(resume, {10: "ours"}, {}, {10: "ours"})
    assert rendezvous.resume_step(workers, SECOND_LIFE) == rendezvous.FRESH


@pytest.mark.parametrize(
    ("cluster", "disk"),
    [
        (FIRST_LIFE, {10: "ours"}),
        (SECOND_LIFE, {10: "theirs"}),
        (SECOND_LIFE, {10: "theirs", 20: "ours"}),
        (SECOND_LIFE, {10: "ours", 20: "ours"}),  # of step 10 both were known to be there
    ],
)
def test_a_host_that_has_lost_its_folder_is_none(cluster: NodeSpec, disk: dict[int, str]) -> None:
    reason = rendezvous.resume_step(savers("auto", disk, {}), cluster)
    assert isinstance(reason, str) and reason.startswith("worker-1 (a, pid 1) has no checkpoint")


@pytest.mark.parametrize("resume", ["never", "elsewhere/step-00000003"])
@pytest.mark.parametrize(
    ("disks", "step"),
    [
        ([{10: "ours"}, {10: "ours"}], 10),
        ([{10: "ours", 20: "ours"}, {10: "ours"}], 10),
        ([{5: "theirs", 10: "ours"}, {10: "ours"}], 10),
        ([{10: "theirs", 20: ""}, {10: "theirs"}], rendezvous.FRESH),
        ([{10: "ours", 90: "theirs"}, {10: "ours", 90: "theirs"}], 10),
    ],
)
def test_whatever_a_job_began_with_it_goes_on_from_what_it_has_saved_itself(
    resume: str, disks: list[dict[int, str]], step: int
) -> None:
    workers = savers(resume, *disks)
    assert rendezvous.resume_step(workers, SECOND_LIFE) == step
    assert rendezvous.resume_step(workers, FIRST_LIFE) == rendezvous.FRESH


def test_disks_without_a_common_step_are_named() -> None:
    reason = rendezvous.resume_step(
        [card("worker-0", folder="x", checkpoints=(5,)), card("worker-1", folder="y", checkpoints=(7,))],
        place("scheduler", 1),
    )
    assert isinstance(reason, str)
    assert "worker-0 (a, pid 1) has checkpoints of steps 5, worker-1 (a, pid 1) of 7" in reason


def test_the_missing_are_named_as_far_as_names_were_given() -> None:
    cluster = place("scheduler", 1, num_workers=3, num_servers=2)
    assert rendezvous.missing(cluster, [*HELPERS, card("worker-1")]) == ["server-1", "worker-0", "worker-2"]
    assert rendezvous.missing(cluster, [card("server"), card("worker")]) == [
        "scheduler",
        "1 more server",
        "2 more workers",
    ]
    all_here = [*HELPERS, card("server-7"), *(card(f"worker-{n}") for n in (4, 5, 6))]
    assert rendezvous.missing(cluster, all_here) == []


def test_enough_is_the_least_number_of_workers_and_a_server() -> None:
    assert rendezvous.enough([*HELPERS, card("worker-1")], min_workers=1)
    assert not rendezvous.enough([*HELPERS, card("worker-1")], min_workers=0)
    assert not rendezvous.enough([*HELPERS, card("worker-1")], min_workers=2)
    assert not rendezvous.enough([card("scheduler"), card("worker-1")], min_workers=1)


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ({"config": {"lr": 0.1}}, {"config": {"lr": 0.2}}, "has --lr 0.2, but worker-0 (a, pid 1) has 0.1"),
        ({"config": {"lr": 0.1}}, {}, "has --lr None"),
        ({"data": {"train": "f00"}}, {"data": {"train": "ba7"}}, "has --train ba7"),
        ({"versions": {"numpy": "1.24.4"}}, {"versions": {"numpy": "1.26.4"}}, "has numpy 1.26.4"),
    ],
)
def test_another_run_is_named_with_both_values(
    first: dict[str, Any], second: dict[str, Any], reason: str
) -> None:
    found = rendezvous.disagreement([card("worker-1", **second), *HELPERS, card("worker-0", **first)])
    assert found is not None and found.startswith("worker-1 (a, pid 1) has ") and reason in found
    assert rendezvous.disagreement([card("worker-1", **first), *HELPERS, card("worker-0", **first)]) is None


def test_a_server_needs_the_same_versions_of_what_it_has() -> None:
    worker = card("worker-0", versions={"mxnet": "1.9.1", "simplejpeg": "1.9"})
    assert rendezvous.disagreement([worker, card("server-0", versions={"mxnet": "1.9.1"})]) is None
    found = rendezvous.disagreement([worker, card("server-0", versions={"mxnet": "1.9.0"})])
    assert found is not None and "server-0 (a, pid 1) has mxnet 1.9.0" in found


def test_a_card_survives_its_way() -> None:
    whole = card(
        "worker-0",
        versions={"a": "1"},
        config={"lr": 0.1},
        checkpoints=(1, 2),
        savers=("a", ""),
        failed=(3, "why"),
    )
    message = json.loads(json.dumps(rendezvous.hello(place("worker-0", 1), whole)))
    assert rendezvous.card_of(message["card"]) == whole


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from([field.name for field in dataclasses.fields(NodeInfo)])


@given(JSON | st.dictionaries(FIELDS, JSON))
def test_what_is_no_card_is_a_value_error(content: Any) -> None:
    with pytest.raises(ValueError):
        rendezvous.card_of(content)


@given(FIELDS, JSON)
def test_a_card_with_an_odd_field_is_a_card_or_a_value_error(name: str, value: Any) -> None:
    try:
        found = rendezvous.card_of({**dataclasses.asdict(card("worker-0")), name: value})
    except ValueError:
        return
    assert str(found).isprintable()
    rendezvous.divide([found, card("worker-1")], 1, -1)
    rendezvous.failure([found])
