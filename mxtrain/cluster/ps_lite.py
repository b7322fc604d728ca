"""ps-lite as the control plane sees it: the variables that it reads, and its threads in this process.

Owns both; does not own the key-value store over it (`kvstore/`) nor its unix sockets (`unix_sockets.py`).
"""

from __future__ import annotations

import os
import time

from mxtrain.cluster.environment import NodeSpec
from mxtrain.cluster.rendezvous import Assignment

# At a normal end the main thread returns from ps-lite sooner than this.
MISSED_POLLS, MISSED_SECONDS = 3, 2.0


def environment(node: NodeSpec, assignment: Assignment, socket_number: int | None) -> dict[str, str | None]:
    """Return what ps-lite must find in os.environ; None marks a variable that must be absent.

    `socket_number` names this process's unix socket (`unix_sockets.reserve`); None if ps-lite uses TCP.
    """
    return {
        "DMLC_ROLE": node.role,
        "DMLC_PS_ROOT_URI": node.root,
        "DMLC_PS_ROOT_PORT": str(assignment.ps_port),
        "DMLC_NUM_WORKER": str(assignment.num_workers),
        "DMLC_NUM_SERVER": str(assignment.num_servers),
        "DMLC_NODE_HOST": node.node_host,
        # With these set, ps-lite would bind elsewhere or declare nodes dead by itself.
        "DMLC_INTERFACE": None,
        "PORT": None if socket_number is None else str(socket_number),
        "DMLC_LOCAL": None if socket_number is None else "1",
        "PS_HEARTBEAT_INTERVAL": None,
        "PS_HEARTBEAT_TIMEOUT": None,
    }


class Threads:
    """The threads started after this object was made, among them ps-lite's.

    A message that tells ps-lite to end, whoever sent it, ends its receiving thread and leaves its other threads
    waiting for ever. The missing thread, as Linux lists them, is the only sign of it.
    """

    def __init__(self) -> None:
        self._others = _thread_ids()
        self._last: set[str] = set()
        self._lasting: set[str] = set()  # seen by two polls in a row
        self._missed: list[float] = []

    def have_ended(self) -> bool:
        """Return whether a lasting thread is gone for good; to be called once a heartbeat."""
        now = _thread_ids() - self._others
        self._lasting |= now & self._last  # faulthandler starts a new thread at each heartbeat
        self._last = now
        self._missed = [*self._missed, time.monotonic()] if self._lasting - now else []
        return len(self._missed) >= MISSED_POLLS and self._missed[-1] - self._missed[0] >= MISSED_SECONDS


def _thread_ids() -> set[str]:
    return set(os.listdir("/proc/self/task"))
