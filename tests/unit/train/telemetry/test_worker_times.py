"""Tests of who keeps the other workers waiting, by how much, and why: said once."""

from __future__ import annotations

import logging
import threading
from typing import Any

import numpy as np
import pytest

from mxtrain.cluster.worker_group import WorkerGroup
from mxtrain.train.telemetry import worker_times
from mxtrain.train.telemetry.worker_times import PATIENCE, STAGES, WorkerTimes


def worker(rank: int, cpu_percent: float = 100.0, **seconds: float) -> dict[str, Any]:
    times = {"compute_seconds": 0.3, "load_seconds": 0.01, **seconds}
    return {
        "rank": rank,
        "host": f"host{rank}",
        **{name: times.get(name, 0.001) for name in STAGES},
        "cpu_percent": cpu_percent,
        "rss_bytes": 1 << 28,
    }


class PairedGroup(WorkerGroup):
    """One of two workers in threads of this process."""

    world_size, hosts = 2, ("here", "there")

    def __init__(self, rank: int, barrier: threading.Barrier, rows: list[Any]):
        self.number, self._barrier, self._rows = rank, barrier, rows

    @property
    def rank(self) -> int:
        return self.number

    def sum(self, values: Any) -> Any:
        self._rows[self.number] = np.asarray(values)
        self._barrier.wait(10)
        return self._rows[0] + self._rows[1]


def test_workers_tell_each_other_the_means_of_their_steps() -> None:
    barrier, rows, found = threading.Barrier(2), [None, None], {}

    def work(rank: int) -> None:
        times = WorkerTimes(PairedGroup(rank, barrier, rows), [2, 1])
        for step in (1, 2, 3):
            times.add(dict.fromkeys(STAGES, rank + step))
        found[rank] = times.gather()

    threads = [threading.Thread(target=work, args=(rank,)) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert found[0] == found[1]
    assert [(each["rank"], each["host"], each["load_seconds"]) for each in found[0]] == [
        (0, "here", 2.0),
        (1, "there", 3.0),
    ]
    assert [each["micro_batches"] for each in found[0]] == [2, 1]
    assert all(each["rss_bytes"] > 1 << 20 and each["cpu_percent"] >= 0 for each in found[0])


@pytest.mark.parametrize(
    ("slow", "reason"),
    [
        (worker(1, load_seconds=0.2), "it waits for its loader (load_seconds 0.2 against 0.01)"),
        (worker(1, 50.0, compute_seconds=0.6), "gets less of its CPUs, 50% of a core against 100%"),
        (worker(1, compute_seconds=0.6), "it computes slowly, with 100% of a core against 100%"),
    ],
)
def test_a_straggler_is_named_once_with_its_reason(
    slow: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("mxtrain").propagate = True
    times = WorkerTimes(PairedGroup(0, threading.Barrier(1), [0, 0]), [1, 1])
    healthy = [worker(0), worker(1, compute_seconds=0.33), worker(2)]
    late = [worker(0, synchronize_seconds=0.3), slow, worker(2, synchronize_seconds=0.3)]
    for workers in [healthy] * 5 + [late] * (PATIENCE - 1) + [healthy]:
        times.report_straggler(workers)
    assert worker_times.straggler(healthy) is None and worker_times.straggler(late) == 1
    assert not caplog.records
    for _ in range(2 * PATIENCE):
        times.report_straggler(late)
    (said,) = caplog.messages
    assert said.startswith("worker 1 on host1 keeps the others waiting") and reason in said


@pytest.mark.parametrize(
    ("shares", "seconds", "late"),
    [
        ((1, 0), (0.9, 0.0), None),
        ((2, 1), (0.6, 0.3), None),
        ((2, 1), (0.9, 0.3), 0),
        ((2, 1), (0.6, 0.9), 1),
        ((2, 1, 1), (0.6, 0.4, 0.3), None),  # worker 1 is slower than 2, and nobody waits for it
        ((2, 1, 1), (1.8, 0.3, 0.3), 0),
        ((1, 1, 0), (0.9, 0.1, 0.0), 0),
        ((2, 1, 0), (0.6, 0.3, 0.0), None),
    ],
)
def test_nobody_is_blamed_for_more_work_than_others_have(
    shares: tuple[int, ...], seconds: tuple[float, ...], late: int | None
) -> None:
    workers = [
        {**worker(rank, compute_seconds=each), "micro_batches": share}
        for rank, (share, each) in enumerate(zip(shares, seconds))
    ]
    assert worker_times.straggler(workers) == late
    if late is not None:
        assert worker_times.in_words(workers, late).startswith(f"worker {late} on")
