"""Jobs that cannot be: a clear error and the end of every process within 30 s, and nothing left behind."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from pathlib import Path
from typing import Iterator

import pytest

from mxtrain.core.errors import RESTART_ME, USAGE
from tests.faults import samples
from tests.faults.case import DONE_SECONDS, REFUSED_SECONDS
from tests.faults.job import CLUSTER, started, until
from tests.faults.nodes import LOOPBACK, Ended, Own, ended, free_port

QUICK = ("--start-timeout", "10")


def assert_ended(found: Ended, *codes: int) -> None:
    assert len(found.codes) == len(found.said), f"{found.codes}: some still run\n{found.said}"
    assert set(found.codes.values()) == {*codes}, found
    assert found.seconds < REFUSED_SECONDS and found.left == []
    assert "Traceback" not in "".join(found.said.values())


def test_a_worker_with_other_data_is_named_with_both(data: list[str], tmp_path: Path) -> None:
    other = samples.pack(tmp_path / "other", num_samples=120, seed=7)
    found = ended(
        tmp_path, free_port(), *data, seconds=REFUSED_SECONDS, worker_1=Own(("--train", str(other)))
    )
    assert_ended(found, USAGE)
    for said in found.said.values():
        assert "worker-1 (" in said and "worker-0 (" in said and "give all the same data" in said


def test_a_worker_that_is_told_of_more_workers_is_refused_and_the_others_name_it(
    data: list[str], tmp_path: Path
) -> None:
    own = Own(environment={"DMLC_NUM_WORKER": "3"}, flags=("--num-workers", "3"))
    found = ended(tmp_path, free_port(), *data, *QUICK, seconds=REFUSED_SECONDS, worker_1=own)
    assert_ended(found, USAGE)
    assert "is told of [3, 1] workers and servers, the scheduler of [2, 1]" in found.said["worker-1"]
    assert "worker-1 did not come to" in found.said["worker-0"]


def test_a_worker_whose_own_module_leaves_is_waited_for_by_nobody(data: list[str], tmp_path: Path) -> None:
    own = Own(("--train", "tests.faults.samples:leaving"))
    found = ended(
        tmp_path, free_port(), *data, "--start-timeout", "60", seconds=REFUSED_SECONDS, worker_1=own
    )
    assert_ended(found, 1)
    for said in found.said.values():
        assert "no such data here" in said


def test_a_port_in_use_is_named_by_the_scheduler(data: list[str], tmp_path: Path) -> None:
    with listening() as port:
        found = ended(tmp_path, port, *data, *QUICK, seconds=REFUSED_SECONDS)
    assert_ended(found, USAGE, RESTART_ME)
    assert found.codes["scheduler"] == USAGE
    assert f"{port}: another program has this port" in found.said["scheduler"]
    assert "heard nothing from the scheduler" in found.said["worker-0"]


@pytest.mark.slow
def test_an_unreachable_scheduler_is_named_by_a_worker(data: list[str], tmp_path: Path) -> None:
    port = free_port()
    found = ended(tmp_path, port, *data, *QUICK, seconds=REFUSED_SECONDS, names=("worker-0",))
    assert_ended(found, USAGE)
    assert f"worker-0: no scheduler at {LOOPBACK}:{port} in 10 s" in found.said["worker-0"]


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_worker_that_raises_ends_the_job_with_its_own_words(tmp_path: Path) -> None:
    flags = ["--train", "tests.faults.samples:raising", *CLUSTER, "--max-restarts", "1"]
    with started(tmp_path, *flags, "--start-timeout", "60") as job:
        assert until(job.has_ended, DONE_SECONDS)
        assert job.process.returncode == 1, job.said()
        assert job.traces.left() == []
    assert job.said().count("the user's own code broke") > 1
    assert "worker-1" in job.said() and "given up after 1 restart" in job.said()


# Read by Python at its start.
OTHER_NUMPY = """
import os, numpy
if os.environ.get("DMLC_ROLE") == "worker":
    del numpy.ascontiguousarray
"""


@pytest.mark.timeout(180)
def test_a_library_without_what_is_asked_of_it_is_not_asked_a_third_time(
    data: list[str], tmp_path: Path
) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "sitecustomize.py").write_text(OTHER_NUMPY)
    path = f"{tmp_path / 'library'}:{os.environ.get('PYTHONPATH', samples.ROOT)}"
    with started(tmp_path, *data, *CLUSTER, PYTHONPATH=path) as job:
        assert until(job.has_ended, DONE_SECONDS)
        said = job.said()
        assert job.process.returncode == 1, said
    assert "AttributeError: module 'numpy' has no attribute 'ascontiguousarray'" in said
    assert "restart 1 of 3" in said and "restart 2 of 3" not in said
    assert "given up as it was the same in the attempt before" in said


@contextlib.contextmanager
def listening() -> Iterator[int]:
    """The port of a program that takes connections and says nothing."""
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        listener.listen(16)
        taken: list[socket.socket] = []

        def take() -> None:
            with contextlib.suppress(OSError):
                while True:
                    taken.append(listener.accept()[0])

        threading.Thread(target=take, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        for connection in taken:
            connection.close()
