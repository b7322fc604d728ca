"""Messages of strangers to ps-lite that no fault of the matrix is: again and again, and in the place of a process."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path

import pytest

from tests.faults.case import DONE_SECONDS
from tests.faults.job import CLUSTER, FLAGS, FaultJob, result, started, wait_for
from tests.support.hosts import ps_lite_messages
from tests.support.hosts.ps_lite_messages import Address
from tests.support.nets import late_net

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(DONE_SECONDS + 60),
]  # one message: tests/cluster/hosts/test_server.py
REASON = "a message that was none of this job's reached its port; leave out DMLC_LOCAL=0"


def place_of(job: FaultJob, role: str) -> Address:
    """Wait for ps-lite of this role, and return where it listens."""
    found: list[Address] = []

    def look() -> bool:
        with contextlib.suppress(OSError):
            pid = job.pid(role)
            found.extend([each for each in [pid and ps_lite_messages.address(pid)] if each])
        return bool(found)

    assert wait_for(look, DONE_SECONDS), job.output()
    return found[0]


def test_who_sends_messages_again_and_again_ends_the_job_after_its_restarts(
    data: list[str], tmp_path: Path
) -> None:
    with started(tmp_path, *data, *CLUSTER, "--max-restarts", "1", DMLC_LOCAL="0") as job:
        is_over = threading.Event()

        def strike() -> None:
            while not is_over.is_set():
                pid = job.pid("worker-1")
                with contextlib.suppress(OSError, AssertionError, ValueError):
                    node = pid and ps_lite_messages.address(pid)
                    if node:
                        ps_lite_messages.send_random_bytes(node, seed=1)
                time.sleep(0.05)

        striking = threading.Thread(target=strike)
        striking.start()
        try:
            assert wait_for(job.has_ended, DONE_SECONDS), job.output()
        finally:
            is_over.set()
            striking.join()
        assert job.process.returncode == 1, job.output()
        assert job.traces.left_behind() == []
    said = [line for line in job.output().splitlines() if "worker-1 was killed by SIGABRT in ps-lite" in line]
    assert len(said) == 2 and all(REASON in line for line in said), job.output()
    assert "restart 1 of 1" in said[0] and "given up after 1 restart" in said[1]


def test_who_takes_the_place_of_a_process_delays_the_start_and_nobody_is_blamed(
    data: list[str], undisturbed: tuple[object, ...], tmp_path: Path
) -> None:
    flags = [*FLAGS, "--model", "tests.support.nets.late_net:with_both", *CLUSTER, *data]
    go = tmp_path / "go"
    with started(tmp_path, *flags, DMLC_LOCAL="0", **{late_net.GO: str(go)}) as job:
        ps_lite_messages.send_add_node(place_of(job, "scheduler"))  # before worker-1, which waits
        go.touch()
        assert wait_for(job.has_ended, DONE_SECONDS), job.output()
        assert job.process.returncode == 0, job.output()
    (said,) = [line for line in job.output().splitlines() if "restart 1 of 3" in line]
    assert "ps-lite did not connect all processes in 2" in said and REASON in said
    assert "worker" not in said.partition(" left: ")[2]
    assert result(job.out) == undisturbed
