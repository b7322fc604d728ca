"""Workers that hold one segment at a time on two hosts, whose weights a server on the second one owns: kills there."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from tests.faults.case import DONE_SECONDS
from tests.faults.job import STEPS_PER_EPOCH, result, wait_for
from tests.faults.two_host_job import TwoHostJob
from tests.support.hosts.lan import lan
from tests.support.process_tree import children
from tests.support.runs import has_step

# Such a job in which a gateway dies is in test_gateways.py.
pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.timeout(400)]


@pytest.mark.parametrize("role", ["server", "worker-1"])
def test_a_kill_on_the_other_host_is_named_and_the_job_resumes_to_the_same_bits(
    role: str, tmp_path: Path, data: list[str], held_undisturbed: tuple[object, ...]
) -> None:
    with lan(2) as hosts:
        job = TwoHostJob(hosts, tmp_path, *data, kind="held", server_place=1)
        try:
            struck = wait_for(lambda: has_step(job.out, STEPS_PER_EPOCH + 3), DONE_SECONDS)
            assert struck, job.output()
            (process,) = children(job.processes[role].pid)
            os.kill(process, signal.SIGKILL)
            assert wait_for(job.have_ended, DONE_SECONDS), job.output()
            assert set(job.codes().values()) == {0}, job.output()
            assert job.traces.left_behind() == []
        finally:
            job.kill()
    said = job.output()
    # A server without an index is called after its host.
    assert re.search(rf"{role}\S* was killed by SIGKILL", "".join(said.values())), said
    assert all("restart 1 of" in each for each in said.values()), said
    assert result(job.out) == held_undisturbed
