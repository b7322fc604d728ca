"""Jobs that cannot work: a clear error and the end of every process within 30 s, and nothing left behind."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
from pathlib import Path
from typing import Iterator

import pytest

from mxtrain.core.errors import USAGE
from mxtrain.launch.local import free_port
from tests.faults import samples
from tests.faults.case import DONE_SECONDS, REFUSED_SECONDS
from tests.faults.job import CLUSTER, started, wait_for
from tests.faults.nodes import LOOPBACK, NodeOptions, NodesResult, run_nodes
from tests.support.amp import BF16, needs_bf16

QUICK = ("--start-timeout", "10")


def assert_ended(found: NodesResult, *codes: int) -> None:
    assert len(found.codes) == len(found.output), f"{found.codes}: some still run\n{found.output}"
    assert set(found.codes.values()) == {*codes}, found
    assert found.seconds < REFUSED_SECONDS and found.left_behind == []
    assert "Traceback" not in "".join(found.output.values())


def test_a_worker_with_other_data_is_named_with_both(data: list[str], tmp_path: Path) -> None:
    other = samples.pack(tmp_path / "other", num_samples=120, seed=7)
    found = run_nodes(
        tmp_path, free_port(), *data, seconds=REFUSED_SECONDS, worker_1=NodeOptions(("--train", str(other)))
    )
    assert_ended(found, USAGE)
    for output in found.output.values():
        assert "worker-1 (" in output and "worker-0 (" in output and "give all the same data" in output


@needs_bf16
@pytest.mark.slow  # in small: tests/unit/cluster/test_rendezvous.py, tests/unit/train/cluster/test_node_info.py
def test_workers_with_unlike_tables_for_bfloat16_are_told_what_to_give(
    data: list[str], tmp_path: Path
) -> None:
    tables = (NodeOptions(tuple(line.split())) for line in ("--amp bf16", BF16))
    own = dict(zip(("worker_0", "worker_1"), tables))
    found = run_nodes(tmp_path, free_port(), *data, seconds=REFUSED_SECONDS, **own)
    assert_ended(found, USAGE)
    for output in found.output.values():
        (said,) = [line for line in output.splitlines() if "--amp-table" in line]
        assert re.search(
            r"worker-1 \(.* has --amp-table \w{16}, but worker-0 \(.* has \w{16}; .*: give all one file", said
        )


@pytest.mark.slow  # tests/unit/cluster/test_membership.py has the refusal
def test_a_worker_with_another_world_size_is_refused_and_the_others_name_it(
    data: list[str], tmp_path: Path
) -> None:
    own = NodeOptions(environment={"DMLC_NUM_WORKER": "3"}, flags=("--num-workers", "3"))
    found = run_nodes(tmp_path, free_port(), *data, *QUICK, seconds=REFUSED_SECONDS, worker_1=own)
    assert_ended(found, USAGE)
    assert "is configured for [3, 1] workers and servers, the scheduler of [2, 1]" in found.output["worker-1"]
    assert "worker-1 did not come to" in found.output["worker-0"]


def test_no_node_waits_for_a_worker_whose_own_module_exits(data: list[str], tmp_path: Path) -> None:
    own = NodeOptions(("--train", "tests.faults.samples:leaving"))
    found = run_nodes(
        tmp_path, free_port(), *data, "--start-timeout", "60", seconds=REFUSED_SECONDS, worker_1=own
    )
    assert_ended(found, 1)
    for output in found.output.values():
        assert "no such data here" in output


@pytest.mark.slow  # in small: tests/unit/cluster/test_coordinator_connections.py
def test_a_port_in_use_is_named_by_the_scheduler(data: list[str], tmp_path: Path) -> None:
    with listening() as port:
        found = run_nodes(tmp_path, port, *data, *QUICK, seconds=REFUSED_SECONDS)
    assert_ended(found, USAGE)
    assert f"{port}: another program has this port" in found.output["scheduler"]
    assert "DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT" in found.output["worker-0"]


@pytest.mark.slow
def test_an_unreachable_scheduler_is_named_by_a_worker(data: list[str], tmp_path: Path) -> None:
    port = free_port()
    found = run_nodes(tmp_path, port, *data, *QUICK, seconds=REFUSED_SECONDS, names=("worker-0",))
    assert_ended(found, USAGE)
    assert f"worker-0: no scheduler at {LOOPBACK}:{port} in 10 s" in found.output["worker-0"]


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_worker_that_raises_ends_the_job_with_its_own_words(tmp_path: Path) -> None:
    flags = ["--train", "tests.faults.samples:raising", *CLUSTER, "--max-restarts", "1"]
    with started(tmp_path, *flags, "--start-timeout", "60") as job:
        assert wait_for(job.has_ended, DONE_SECONDS)
        assert job.process.returncode == 1, job.output()
        assert job.traces.left_behind() == []
    assert job.output().count("the user's own code broke") > 1
    assert "worker-1" in job.output() and "given up after 1 restart" in job.output()


# Read by Python at its start.
OTHER_NUMPY = """
import os, numpy
if os.environ.get("DMLC_ROLE") == "worker":
    del numpy.ascontiguousarray
"""


@pytest.mark.slow  # tests/unit/launch/test_exits.py has the rule
@pytest.mark.timeout(180)
def test_a_library_without_a_function_ends_the_job_after_the_second_attempt(
    data: list[str], tmp_path: Path
) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "sitecustomize.py").write_text(OTHER_NUMPY)
    path = f"{tmp_path / 'library'}:{os.environ.get('PYTHONPATH', samples.ROOT)}"
    with started(tmp_path, *data, *CLUSTER, PYTHONPATH=path) as job:
        assert wait_for(job.has_ended, DONE_SECONDS)
        output = job.output()
        assert job.process.returncode == 1, output
    assert "AttributeError: module 'numpy' has no attribute 'ascontiguousarray'" in output
    assert "restart 1 of 3" in output and "restart 2 of 3" not in output
    assert "given up as it was the same in the attempt before" in output


@contextlib.contextmanager
def listening() -> Iterator[int]:
    """Yield the port of a program that takes connections and answers nothing."""
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
