"""ps-lite's variables, and the detection of its end by its threads."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from mxtrain.cluster import ps_lite
from mxtrain.cluster.rendezvous import Assignment
from tests.support.control_plane import node_spec
from tests.support.supervised_groups import until


def test_variables_are_the_assignments_and_steering_ones_are_absent() -> None:
    assignment = Assignment(
        40001, num_workers=1, num_servers=2, rank=0, resume_step=-1, is_writer=True, local_workers=1
    )
    expected = {
        "DMLC_ROLE": "worker",
        "DMLC_PS_ROOT_URI": "127.0.0.1",
        "DMLC_PS_ROOT_PORT": "40001",
        "DMLC_NUM_WORKER": "1",
        "DMLC_NUM_SERVER": "2",
        "DMLC_NODE_HOST": "127.0.0.1",
        "DMLC_INTERFACE": None,
        "PORT": None,
        "DMLC_LOCAL": None,
        "PS_HEARTBEAT_INTERVAL": None,
        "PS_HEARTBEAT_TIMEOUT": None,
    }
    node = node_spec("worker-0", 9091)
    assert ps_lite.environment(node, assignment, None) == expected
    over_unix_sockets = {**expected, "DMLC_LOCAL": "1", "PORT": "40002"}
    assert ps_lite.environment(node, assignment, 40002) == over_unix_sockets


def until_gone(thread: threading.Thread) -> None:
    """Wait until the system has let go of it too, which is a moment after Python has."""
    thread.join(timeout=10)
    until(lambda: not Path(f"/proc/self/task/{thread.native_id}").exists(), "the thread is still there")


@pytest.mark.alone
def test_only_a_lasting_thread_is_missed_and_not_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ps_lite, "MISSED_SECONDS", 0.1)
    end_earlier, end = threading.Event(), threading.Event()
    earlier = threading.Thread(target=end_earlier.wait)
    earlier.start()
    threads = ps_lite.Threads()
    lasting = threading.Thread(target=end.wait)
    lasting.start()
    for _ in range(5):
        passing = threading.Thread(target=time.sleep, args=(0.01,))
        passing.start()
        assert not threads.have_ended()
        passing.join()
    end_earlier.set()
    until_gone(earlier)
    assert not any(threads.have_ended() for _ in range(5)), "it was here before"
    end.set()
    until_gone(lasting)
    assert not any(threads.have_ended() for _ in range(5)), "the process may be about to end"
    time.sleep(0.1)
    assert threads.have_ended()
