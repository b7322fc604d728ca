"""Times of all workers: the record `workers`, and a line in the log about one that the others wait for.

Owns what a worker tells of itself, and who counts as a straggler. How often they tell is `step_records.py`'s.
"""

from __future__ import annotations

import logging
import math
import os
import statistics
import time
from typing import Any, Sequence

import numpy as np

from mxtrain.cluster.worker_group import WorkerGroup
from mxtrain.core.system import machine
from mxtrain.report.diagnosis.workers import for_as_much
from mxtrain.train.telemetry.stage_clock import STEP_STAGES

logger = logging.getLogger(__name__)

STAGES = [f"{stage}_seconds" for stage in STEP_STAGES]
NUMBERS = [*STAGES, "cpu_percent", "rss_bytes"]
# A straggler is said to be one once so many records in a row tell that its own work takes so much longer than others'.
PATIENCE, TOO_LONG = 3, 1.2


class WorkerTimes:
    """The times of this worker's steps since the workers told each other last.

    `shares` says how many micro-batches of a step each worker computes.
    """

    def __init__(self, group: WorkerGroup, shares: Sequence[int]):
        self._group, self._shares = group, shares
        self._straggler: int | None = None  # of the last records, so many in a row
        self._num_records = 0
        self._named: set[int] = set()
        self._forget()

    def add(self, times: dict[str, Any]) -> None:
        """Add the times of a step, as its record has them."""
        self._num_steps += 1
        for name in STAGES:
            self._seconds[name] += times[name]

    def gather(self) -> list[dict[str, Any]]:
        """Return the means of all workers' steps since the last time, in the order of ranks; a collective."""
        cpu_percent = 100 * (time.process_time() - self._cpu_began) / (time.monotonic() - self._began)
        means = [self._seconds[name] / self._num_steps for name in STAGES]
        rows = np.zeros((self._group.world_size, len(NUMBERS)))
        rows[self._group.rank] = [*means, cpu_percent, machine.resident_bytes(os.getpid())]
        self._forget()
        return [
            {
                "rank": rank,
                "host": host,
                "micro_batches": share,
                **dict(zip(NUMBERS, row[:-1])),
                "rss_bytes": int(row[-1]),
            }
            for rank, (host, share, row) in enumerate(
                zip(self._group.hosts, self._shares, self._group.sum(rows).tolist())
            )
        ]

    def report_straggler(self, workers: Sequence[dict[str, Any]]) -> None:
        """Log, once of each worker, that it has kept the others waiting for long."""
        rank = straggler(workers)
        self._num_records = self._num_records + 1 if rank == self._straggler else 1
        self._straggler = rank
        if rank is not None and self._num_records >= PATIENCE and rank not in self._named:
            self._named.add(rank)
            logger.warning("%s", in_words(workers, rank))

    def _forget(self) -> None:
        self._num_steps, self._seconds = 0, dict.fromkeys(STAGES, 0.0)
        self._began, self._cpu_began = time.monotonic(), time.process_time()


def straggler(workers: Sequence[dict[str, Any]]) -> int | None:
    """Return the rank of the worker whose own work takes far longer than as much work of others; None without one."""
    slowest = max(workers, key=_own_seconds)
    others = [_own_seconds(each) for each in _others(workers, slowest["rank"])]
    return (
        slowest["rank"] if others and _own_seconds(slowest) > TOO_LONG * statistics.median(others) else None
    )


def in_words(workers: Sequence[dict[str, Any]], rank: int) -> str:
    """Return who is the straggler, by how much, and why."""
    slow = workers[rank]
    others = _others(workers, rank)
    usual = {name: statistics.median(each[name] for each in others) for name in NUMBERS}
    own, of_others = _own_seconds(slow), statistics.median(map(_own_seconds, others))
    stage = max(
        (name for name in STAGES if name != "synchronize_seconds"), key=lambda name: slow[name] - usual[name]
    )
    reason = {
        "load_seconds": "it waits for its loader",
        "split_seconds": "it takes long to find its samples",
        "update_seconds": "it takes long to apply the gradients",
        "compute_seconds": "it computes slowly",
    }[stage]
    if stage == "compute_seconds":
        cpu = f"{slow['cpu_percent']:.0f}% of a core against {usual['cpu_percent']:.0f}%"
        has_less = slow["cpu_percent"] < usual["cpu_percent"] / TOO_LONG
        reason += f" and gets less of its CPUs, {cpu}" if has_less else f", with {cpu}"
    return (
        f"worker {rank} on {slow['host']} keeps the others waiting: its own part of a step takes {own:.3g} s, theirs "
        f"{of_others:.3g} s; {reason} ({stage} {slow[stage]:.3g} against {usual[stage]:.3g})"
    )


def _others(workers: Sequence[dict[str, Any]], rank: int) -> list[dict[str, Any]]:
    return [each for each in for_as_much(workers, rank) if each["rank"] != rank]


def _own_seconds(worker: dict[str, Any]) -> float:
    """Return the time of a step in which a worker does not wait for the others."""
    return math.fsum(worker[name] for name in STAGES if name != "synchronize_seconds")
