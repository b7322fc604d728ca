"""Workers and servers that are short of memory, from some step on or from the start: named, in bounded time."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from mxtrain.core.errors import RESTART_ME
from mxtrain.launch.exits import GAVE_UP
from tests.faults.case import DONE_SECONDS, REFUSED_SECONDS
from tests.faults.job import CLUSTER, FLAGS, result, started, wait_for
from tests.faults.samples import ROOT
from tests.support.runs import has_step

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2 * DONE_SECONDS)]
NAMED = re.compile(r"memory has run out|its memory is limited to [\d.]+ GB")


def limit(pid: int, spare_bytes: int) -> None:
    """Leave a running process so much more than what it has taken."""
    size = re.search(r"VmSize:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert size
    resource.prlimit(pid, resource.RLIMIT_AS, ((int(size[1]) << 10) + spare_bytes,) * 2)


@pytest.mark.parametrize("spare_bytes", [0, 100 << 10, 1 << 20])
@pytest.mark.parametrize("role", ["worker-0", "worker-1"])
def test_a_worker_that_runs_out_of_memory_is_named_and_the_job_goes_on(
    role: str, spare_bytes: int, data: list[str], undisturbed: tuple[object, ...], tmp_path: Path
) -> None:
    with started(tmp_path, *data, *CLUSTER) as job:
        assert wait_for(lambda: has_step(job.out, 3), DONE_SECONDS), job.output()
        limit(job.pid(role) or 0, spare_bytes)
        restarted = wait_for(lambda: "restart 1 of 3" in job.output() or job.has_ended(), REFUSED_SECONDS)
        assert restarted, job.output() + job.logs()
        assert wait_for(job.has_ended, DONE_SECONDS), job.output()
        assert job.process.returncode == 0, job.output()
        output = job.output()
        assert "restart" not in output or (NAMED.search(output) and role in output), output
        assert job.traces.left_behind() == []
    assert result(job.out) == undisturbed


@pytest.mark.parametrize("megabytes", range(400, 1500, 100))
def test_a_run_of_one_process_that_is_short_of_memory_says_so_and_ends(
    megabytes: int, data: list[str], tmp_path: Path
) -> None:
    limited = ["prlimit", f"--as={megabytes << 20}", sys.executable, "-m", "mxtrain.fit"]
    done = subprocess.run(
        [*limited, *FLAGS, *data, "--out", str(tmp_path)],
        **{"cwd": ROOT, "text": True, "timeout": REFUSED_SECONDS, "capture_output": True},
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0 or NAMED.search(said) or "memory is limited to" in said, said
    assert done.returncode == RESTART_ME or "memory has run out" not in said, said


@pytest.mark.parametrize("megabytes", [500, 1000, 1300])
def test_a_job_that_is_short_of_memory_from_the_start_says_so(
    megabytes: int, data: list[str], tmp_path: Path
) -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, before[1]))
    try:
        job = started(tmp_path, *data, *CLUSTER, "--max-restarts", "1")
        with job as running:
            resource.setrlimit(resource.RLIMIT_AS, before)
            assert wait_for(running.has_ended, DONE_SECONDS), running.output()
            assert running.process.returncode == GAVE_UP, running.output()
            assert NAMED.search(running.output()), running.output() + running.logs()
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
