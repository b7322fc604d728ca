"""Servers that add where workers of their host have their gradients: who shares memory, and what is left of it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.breadth import slow_cases
from tests.support.jobs.cluster_jobs import ended, job, wait_for

NOTICED_SECONDS = 5.0  # of which the others' own end takes some
SIZES = [(1_000_003,)] * 3
SHARED = Path("/dev/shm")


def sum_on(group: Any, folder: Path) -> None:
    """Sums of ones until the worker is ended."""
    from mxtrain.kvstore.buckets import Buckets
    from mxtrain.kvstore.store import open_store

    buckets = Buckets(open_store("dist_sync", group), SIZES)
    while True:
        for view in buckets.views:
            view[:] = 1
        buckets.start_allreduce(buckets.views)
        buckets.finish_allreduce(buckets.views)
        for view in buckets.views:
            assert (view.asnumpy() == group.world_size).all()
        group.report_progress("training", 0)
        (folder / f"summed-{group.rank}").touch()


def num_maps(pid: int) -> int:
    """How many files of gradients a process has in its memory."""
    return Path(f"/proc/{pid}/maps").read_text().count("memfd:mxtrain-sums")


@pytest.mark.parametrize("way", ["memory", "TCP"])
def test_servers_of_one_host_have_the_workers_gradients_in_their_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if way == "TCP":
        monkeypatch.setenv("DMLC_LOCAL", "0")
    with job(tmp_path, sum_on, num_workers=2, num_servers=1) as processes:
        wait_for(tmp_path / "summed-0", processes)
        found = {name: num_maps(process.pid) for name, process in processes.items()}
    of_server, of_worker = (2, 1) if way == "memory" else (0, 0)
    assert found == {"scheduler": 0, "server-0": of_server, "worker-0": of_worker, "worker-1": of_worker}


@pytest.mark.parametrize(
    "struck",
    ["worker-2", *slow_cases("server-0", "server-1", "worker-0")],
)
def test_a_process_killed_in_the_middle_of_sums_is_named_in_time_and_leaves_nothing(
    tmp_path: Path, struck: str
) -> None:
    before = set(SHARED.iterdir())
    with job(tmp_path, sum_on, num_workers=3, num_servers=2) as processes:
        for rank in range(3):
            wait_for(tmp_path / f"summed-{rank}", processes)
        assert num_maps(processes["server-1"].pid) == 3
        processes[struck].kill()
        killed = time.monotonic()
        codes = ended(processes, seconds=20)
        assert time.monotonic() - killed < NOTICED_SECONDS
    assert codes.pop(struck) < 0 and set(codes.values()) == {75}
    for name in codes:
        assert f"{struck} " in (tmp_path / f"{name}.log").read_text(), name
    assert set(SHARED.iterdir()) <= before
