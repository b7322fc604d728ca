"""ps-lite as the control plane sees it: the variables that it reads, and its threads in this process.

Owns both; does not own the key-value store over it (`kvstore/`) nor its unix sockets (`unix_sockets.py`).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from pathlib import Path
from typing import Iterator, Mapping

from mxtrain.cluster.admission.assignment import Assignment
from mxtrain.cluster.environment import LOOPBACK, NodeSpec

TASKS = Path("/proc/self/task")
PR_SET_NAME, PR_GET_NAME = 15, 16
THREAD_NAME = b"ps-lite"
POLL_SECONDS = 0.1
MISSED_POLLS = (
    20  # at a normal end all threads are gone sooner; polls are counted, as a frozen process makes none
)
# Two of ZeroMQ, the receiving one and, but on the scheduler, one that hands on what was received.
NUM_THREADS = {"scheduler": 3, "server": 4, "worker": 4}
STRANGERS = (
    "a message that was none of this job's reached its port; leave out DMLC_LOCAL=0, by which other users of this host "
    "reach it (docs/distributed.md, Who can reach it)"
)


def environment(node: NodeSpec, assignment: Assignment, socket_number: int | None) -> dict[str, str | None]:
    """Return what ps-lite must find in os.environ; None marks a variable that must be absent.

    `socket_number` names this process's unix socket (`unix_sockets.reserve`); None if ps-lite uses TCP.
    """
    return {
        "DMLC_ROLE": node.role,
        "DMLC_PS_ROOT_URI": LOOPBACK if node.secret else node.root,
        "DMLC_PS_ROOT_PORT": str(assignment.ps_port),
        "DMLC_NUM_WORKER": str(assignment.num_workers),
        "DMLC_NUM_SERVER": str(assignment.num_servers),
        "DMLC_NODE_HOST": LOOPBACK,  # it listens nowhere else, also where it uses TCP
        # With these set, ps-lite would bind elsewhere or declare nodes dead by itself.
        "DMLC_INTERFACE": None,
        "PORT": None if socket_number is None else str(socket_number),
        "DMLC_LOCAL": None if socket_number is None else "1",
        "PS_HEARTBEAT_INTERVAL": None,
        "PS_HEARTBEAT_TIMEOUT": None,
    }


def num_peers(role: str, assignment: Assignment) -> int:
    """Return how many connections this process accepts: of all of other roles, and of its own one to itself."""
    others = {"worker": assignment.num_servers + 1, "server": assignment.num_workers + 1}
    return others.get(role, assignment.num_workers + assignment.num_servers) + 1


def num_threads(environ: Mapping[str, str]) -> int:
    """Return how many threads ps-lite starts by these variables."""
    resends = environ.get("PS_RESEND", "0") != "0"
    return NUM_THREADS[environ["DMLC_ROLE"]] + resends


class Threads:
    """ps-lite's threads in this process.

    A message that tells ps-lite to end, whoever sent it, ends its receiving thread and leaves the others waiting for
    ever; at its own end all go. The missing thread, as Linux lists them, is the only sign of it. Linux gives a thread
    the name of the one that starts it, so these are known from their first moment.
    """

    def __init__(self) -> None:
        self._starters: set[str] = set()
        self._num_expected = 0
        self._are_named: dict[str, bool] = {}  # by the number of a thread that runs
        self._num_missed = 0
        self.stage = ""  # then "starting", and "started" once it has met all others

    @contextlib.contextmanager
    def being_started(self, num_expected: int) -> Iterator[None]:
        """A block in which the calling thread starts these threads, and no others."""
        own = ctypes.create_string_buffer(16)
        system = ctypes.CDLL(None)
        system.prctl(PR_GET_NAME, own)
        self._num_expected = num_expected
        self._starters.add(str(threading.get_native_id()))
        system.prctl(PR_SET_NAME, THREAD_NAME)
        self.stage = "starting"
        try:
            yield
            self.stage = "started"
        finally:
            system.prctl(PR_SET_NAME, own)

    def stop_watching(self) -> None:
        """Miss none of the threads that there were until now: ps-lite has come to its own end."""
        self._starters.clear()

    def have_ended(self) -> bool:
        """Return whether one is gone for good, or never came, while others are left; called every POLL_SECONDS."""
        if not self._starters:
            return False
        running = set(os.listdir(TASKS)) - self._starters
        self._are_named = {
            each: self._are_named[each] if each in self._are_named else _is_named(each) for each in running
        }
        num_here = sum(self._are_named.values())
        # At times one more: ps-lite starts a thread for heartbeats of its own, which ends at once without any.
        self._num_missed = self._num_missed + 1 if 0 < num_here < self._num_expected else 0
        return self._num_missed >= MISSED_POLLS


THREADS = Threads()  # there is one ps-lite in a process


def _is_named(thread: str) -> bool:
    try:
        return (TASKS / thread / "comm").read_bytes().strip() == THREAD_NAME
    except OSError:  # it has just ended
        return False
