"""ps-lite's variables, and the detection of its end by its threads."""

from __future__ import annotations

import _thread
import threading
from pathlib import Path

from mxtrain.cluster import ps_lite
from mxtrain.cluster.admission.assignment import Assignment
from tests.support.jobs.control_plane import node_spec
from tests.support.jobs.supervised_groups import until


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


class Waiting:
    """A thread that waits until it is ended; as C code starts them, without a name of its own."""

    def __init__(self) -> None:
        self.end, has_begun = threading.Event(), threading.Event()

        def run() -> None:
            self.path = Path(f"/proc/self/task/{threading.get_native_id()}")
            has_begun.set()
            self.end.wait()

        _thread.start_new_thread(run, ())
        has_begun.wait(10)

    def stop(self) -> None:
        self.end.set()
        until(lambda: not self.path.exists(), "the thread is still there")


def polls(threads: ps_lite.Threads, number: int = ps_lite.MISSED_POLLS) -> list[bool]:
    return [threads.have_ended() for _ in range(number)]


def test_a_thread_of_ps_lites_is_missed_while_others_are_left_and_no_other_thread_is() -> None:
    threads, before = ps_lite.Threads(), Waiting()
    assert not any(polls(threads))
    with threads.being_started(2):
        assert threads.stage == "starting"
        receiving, lasting, passing = Waiting(), Waiting(), Waiting()
        assert not any(polls(threads, 2))
    passing.stop()
    assert threads.stage == "started"
    after = Waiting()
    assert not any(polls(threads))
    for other in (before, after):
        other.stop()
    assert not any(polls(threads)), "these were not started by ps-lite"
    receiving.stop()
    assert polls(threads) == [False] * (ps_lite.MISSED_POLLS - 1) + [True]
    lasting.stop()
    assert not any(polls(threads)), "at its own end all are gone"


def test_a_thread_that_no_poll_has_seen_is_missed_too() -> None:
    threads = ps_lite.Threads()
    with threads.being_started(2):
        only = Waiting()
    assert polls(threads)[-1]
    threads.stop_watching()
    assert not any(polls(threads)), "it has come to its own end"
    only.stop()


def test_the_threads_of_a_role_are_counted_and_resending_needs_one_more() -> None:
    assert ps_lite.num_threads({"DMLC_ROLE": "scheduler"}) == 3
    assert ps_lite.num_threads({"DMLC_ROLE": "worker", "PS_RESEND": "1"}) == 5
