"""The bytes of processes by arithmetic, and which ways to train a run has."""

from __future__ import annotations

import dataclasses

import pytest

from mxtrain import config
from mxtrain.train.net import memory_plan, ways
from mxtrain.train.net.memory_plan import NetBytes, Processes, SegmentBytes, Way

SEGMENTS = [SegmentBytes(100, 40, 8), SegmentBytes(300, 50, 9), SegmentBytes(200, 60, 7)]
NET = NetBytes(
    600, trained=600, state=1200, averages=0, largest=250, split=0, computed=170, segments=SEGMENTS
)
ALONE = Processes(micro_batches=2)
CLUSTER = Processes(workers=2, servers=2, micro_batches=2, is_cluster=True)
HELD = Way("", updates_on_servers=True, holds_layers=True)


def test_a_process_alone_holds_all_and_copies_it_for_a_checkpoint() -> None:
    plan = memory_plan.of_way(Way(""), NET, ALONE)
    assert plan.first_worker == memory_plan.ProcessBytes(600, 600, 1200, 1200, activations=170, copies=1800)
    assert plan.first_worker.total == 5570 and plan.wire == 0 and plan.server.total == 0
    assert plan.on_host(1, 0) == 5570 + memory_plan.OF_WORKER
    single = memory_plan.of_way(Way(""), NET, dataclasses.replace(ALONE, micro_batches=1))
    assert single.first_worker.totals == 600


def test_recomputing_keeps_the_cuts_and_one_segment() -> None:
    plan = memory_plan.of_way(Way("", recomputes=True), NET, ALONE)
    assert plan.first_worker.activations == 8 + 9 + 60


def test_devices_of_a_process_have_all_but_the_totals_each() -> None:
    two = memory_plan.of_way(Way(""), NET, dataclasses.replace(ALONE, devices=2))
    one = memory_plan.of_way(Way(""), NET, ALONE)
    assert two.devices[0].total == 600 + 600 + 1200 + 170 and two.first_worker.buffers == 2 * 600
    assert two.first_worker.total - one.first_worker.total == two.devices[0].total + 2 * 600
    gpus = memory_plan.of_way(Way(""), NET, dataclasses.replace(ALONE, is_exact=False, are_gpus=True))
    assert gpus.devices == two.devices[:1] and gpus.first_worker.at_least == 600


def test_servers_share_weights_and_states_by_whole_parameters() -> None:
    way = Way("", updates_on_servers=True)
    plan = memory_plan.of_way(way, NET, CLUSTER)
    assert plan.worker.state == 0 and plan.first_worker.copies == 600 + 1200, "it writes the servers' states"
    assert plan.server.weights == 300 and plan.server.state == 600
    assert plan.server.totals == 2 * 250, "of a parameter that has not come from all workers"
    many = memory_plan.of_way(way, NET, dataclasses.replace(CLUSTER, servers=5))
    assert many.server.weights == 250, "its largest parameter lies on one"
    alone = memory_plan.of_way(way, NET, dataclasses.replace(CLUSTER, workers=1))
    assert alone.server.totals == 0


def test_who_holds_layers_has_two_segments_and_pulls_them_twice() -> None:
    plan = memory_plan.of_way(HELD, NET, CLUSTER)
    assert plan.worker.weights == 300 + 200 and plan.worker.gradients == 300 and plan.worker.totals == 600
    assert plan.worker.activations == 2 * (8 + 9) + 60 and plan.worker.copies == 0
    assert plan.wire == (600 + 400) + 600
    owner = memory_plan.of_way(Way("", holds_layers=True), NET, ALONE)
    assert owner.first_worker.state == 1200 and owner.first_worker.weights == 500 + 600 and owner.wire == 0


def test_files_take_what_servers_own() -> None:
    plan = memory_plan.of_way(dataclasses.replace(HELD, is_on_disk=True), NET, CLUSTER)
    assert plan.server.total < memory_plan.of_way(HELD, NET, CLUSTER).server.total
    assert plan.disk == (600 + 600 + 1200) // 2


@pytest.mark.parametrize("devices", [1, 2, 3])
def test_stages_divide_the_net(devices: int) -> None:
    processes = dataclasses.replace(ALONE, devices=devices)
    plan = memory_plan.of_way(Way("", is_in_stages=True), NET, processes)
    assert len(plan.devices) == devices
    assert sum(each.weights for each in plan.devices) == 600
    assert sum(each.state for each in plan.devices) == 1200
    assert (max(each.weights for each in plan.devices) < 600) == (devices > 1)


def planned(flags: str, net: NetBytes = NET) -> tuple[ways.PlannedWay, list[ways.PlannedWay]]:
    run = config.parse(f"--train t.rec {flags}".split())

    def processes_of(run: config.Run) -> Processes:
        is_cluster = run.layout.kvstore != "device"
        servers = run.layout.num_servers if run.layout.kvstore == "dist_sync" else 0
        return Processes(run.layout.num_workers, servers, is_cluster=is_cluster)

    return ways.planned(run, net, processes_of)


def test_rows_are_the_ways_that_the_flags_allow() -> None:
    alone, cluster = ([each.way.flags for each in planned(flags)[1]] for flags in ("", "--kvstore dist_sync"))
    assert alone[:2] == ["as it is", "--remat"] and not any("kvstore" in flags for flags in alone)
    assert {"as it is", "--remat", "--kvstore allreduce", "--kvstore allreduce --remat"} <= {*cluster}
    known = config.flag_names()
    assert all(word in known for flags in [*alone, *cluster] for word in flags.split() if word[:2] == "--")
    with_remat = planned("--remat")
    assert [each.way.flags for each in with_remat[1]][:2] == ["as it is", "without these"]
    assert with_remat[0].way.recomputes
    assert "--remat" not in [each.way.flags for each in planned("", dataclasses.replace(NET, segments=()))[1]]


def test_a_flag_that_does_not_exist_is_no_way_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ways, "WAYS", ({"remat": True}, {"nothing_of_this_name": "here"}))
    assert [each.way.flags for each in planned("")[1]] == ["as it is", "--remat"]


def test_what_is_sure_refuses_and_what_is_likely_warns() -> None:
    own, others = planned("", dataclasses.replace(NET, computed=10**9))
    of_python = memory_plan.OF_WORKER
    assert ways.shortage(own, others, of_python + 2 * 10**9, 1, 0) is None
    likely = ways.shortage(own, others, of_python + 10**8, 1, 0)
    assert likely is not None and not likely.is_sure and "--remat fits" in likely.text
    sure = ways.shortage(own, others, own.plan.at_least_on_host(1, 0) - 1, 1, 0)
    assert sure is not None and sure.is_sure and "a smaller net" in sure.text


def test_a_table_names_what_fits_where_the_run_does_not() -> None:
    own, others = planned("", dataclasses.replace(NET, computed=10**9))
    *rows, last = ways.table(own, others, memory_plan.OF_WORKER + 10**8)
    assert any(row.split()[-2:] == ["fits", "--remat"] for row in rows)
    assert last.startswith("this run takes 1,220 MB") and ": --remat fits, with 220 MB" in last
    assert not any("this run takes" in line for line in ways.table(own, others, 10**10))


def test_a_head_in_chunks() -> None:
    """Of 2,000 bytes in chunks of up to 500: whole at a worker, or a chunk and its gradient."""
    net = dataclasses.replace(
        NET, weights=NET.weights + 2000, trained=NET.trained + 2000, largest=500, head=2000, chunk=500
    )
    whole, before = (memory_plan.of_way(Way(""), each, ALONE).first_worker for each in (net, NET))
    assert whole.weights - before.weights == whole.gradients - before.gradients == 2000
    assert whole.activations - before.activations == 2000  # gradients on their way
    lent = memory_plan.of_way(Way("", updates_on_servers=True), net, CLUSTER)
    assert lent.worker.weights == NET.weights + 500
    assert lent.worker.gradients == max(NET.trained, 500) and lent.worker.copies == 0
    without = memory_plan.of_way(Way("", updates_on_servers=True), NET, CLUSTER)
    assert lent.worker.totals == without.worker.totals
    assert lent.wire - without.wire == 3 * 2000  # a chunk comes twice, and its gradient goes
    held, of_body = (memory_plan.of_way(HELD, each, CLUSTER) for each in (net, NET))
    assert held.worker.weights - of_body.worker.weights == 500
    assert held.wire - of_body.wire == 3 * 2000
