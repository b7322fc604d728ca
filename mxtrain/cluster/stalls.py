"""Workers that make no progress, and a ps-lite that does not start, as their heartbeats tell.

Owns who is named, and the limits.
"""

from __future__ import annotations

from typing import Sequence

from mxtrain.cluster import ps_lite
from mxtrain.cluster.channel import Timeouts
from mxtrain.cluster.connections import Connection
from mxtrain.cluster.verdicts import Verdict
from mxtrain.core.errors import RESTART_ME

MEETING_SECONDS = 20.0  # for ps-lite to connect processes that have all started it: it takes one or two


class Meeting:
    """The start of ps-lite, which waits without end for a process whose place a stranger has taken."""

    def __init__(self) -> None:
        self._began: float | None = None  # when all processes had started it

    def verdict(self, members: Sequence[Connection], now: float) -> Verdict | None:
        """Return why the job ends, None if it goes on; workers are ready when they have met all others."""
        stages = {each.ps_lite for each in members}
        if "" in stages or all(each.ps_lite == "started" for each in members if each.rank >= 0):
            self._began = None
            return None
        self._began = now if self._began is None else self._began
        seconds = now - self._began
        if seconds <= MEETING_SECONDS:
            return None
        reason = f"ps-lite did not connect all processes in {seconds:.1f} s: a firewall is between two, or"
        return Verdict(RESTART_ME, f"{reason} {ps_lite.STRANGERS}")


def verdict(workers: Sequence[Connection], waiting_ranks: set[int], timeouts: Timeouts) -> Verdict | None:
    """Return why the job ends, None if it goes on; the workers of `waiting_ranks` wait for a sum of all."""
    waiting = [worker for worker in workers if worker.rank in waiting_ranks]
    absent = [worker for worker in workers if worker not in waiting]
    busy = [worker for worker in absent if not worker.has_finished]
    if waiting and len(busy) < len(absent):
        gone = [worker for worker in absent if worker.has_finished]
        return Verdict(RESTART_ME, f"{_names(gone)} finished while {_names(waiting)} waits for a sum")
    if busy:
        return _idleness(
            max(busy, key=lambda worker: worker.idle_seconds - _limit(worker, timeouts)), timeouts
        )
    return None


def _idleness(slowest: Connection, timeouts: Timeouts) -> Verdict | None:
    """Return the verdict if the slowest worker makes no progress; a slow one that does is waited for."""
    if slowest.info is None or slowest.idle_seconds <= _limit(slowest, timeouts):
        return None
    reason = f"{slowest} made no progress for {slowest.idle_seconds:.1f} s{slowest.last_progress}"
    return Verdict(RESTART_ME, reason, (slowest.info.node,))


def _limit(worker: Connection, timeouts: Timeouts) -> float:
    """Before its first step a worker imports, builds and connects: the machine decides how long that takes."""
    return timeouts.stall if worker.step >= 0 else max(timeouts.stall, timeouts.start)


def _names(connections: Sequence[Connection]) -> str:
    return " and ".join(str(each) for each in connections)
