"""A lost host: with --min-workers the others go on without it, and with it when it is back, with the same bits."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Iterator

import pytest

from mxtrain.launch.local import free_port
from tests.support.commands import ROOT, Command
from tests.support.jobs.cluster_run import flags
from tests.support.process_tree import children
from tests.support.runs import assert_same_end, has_step, newest, wait_until

START_SECONDS = 8  # and as long as it takes for a node to be given up


class Nodes:
    """A job of one scheduler, one server and some workers, each with a supervisor of its own, as hosts have one."""

    def __init__(self, num_workers: int, *line: str):
        self._line, self._port, self._num_workers = line, free_port(), num_workers
        self.processes: dict[str, subprocess.Popen[str]] = {}
        for name in ("scheduler", "server", *(f"worker {number}" for number in range(num_workers))):
            self.start(name)

    def start(self, name: str) -> None:
        root, role = f"127.0.0.1:{self._port}", name.split()[0]
        command = [sys.executable, "-m", "mxtrain.launch", role, "--root", root]
        command += ["-n", str(self._num_workers), "-s", "1", "--", *self._line]
        self.processes[name] = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )

    def lose(self, name: str) -> None:
        """Kill a host's supervisor and what it has started."""
        lost = self.processes[name]
        for pid in (lost.pid, *children(lost.pid)):
            os.kill(pid, signal.SIGKILL)
        lost.communicate(timeout=10)

    def wait_for_end(self) -> dict[str, str]:
        """Wait until all have ended well, and return what their supervisors have said."""
        said = {name: process.communicate(timeout=120)[1] for name, process in self.processes.items()}
        assert all(process.returncode == 0 for process in self.processes.values()), said
        return said

    def kill(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.communicate(timeout=10)


@contextlib.contextmanager
def nodes(digits: Path, out: Path, num_workers: int) -> Iterator[Nodes]:
    """A job that goes on without one of its workers; it does not outlive the block."""
    line = flags(digits, out, "--kvstore", "dist_sync", "--checkpoint-steps", "5", "--silence-timeout", "20")
    line += ["--min-workers", str(num_workers - 1), "--start-timeout", str(num_workers * START_SECONDS // 2)]
    job = Nodes(num_workers, *line)
    try:
        yield job
    finally:
        job.kill()


@pytest.fixture(scope="module")
def one(digits: Path, tmp_path_factory: pytest.TempPathFactory, command: Command) -> Path:
    """The run folder of one process."""
    out = tmp_path_factory.mktemp("one")
    done = command("mxtrain.fit", *flags(digits, out, "--log", "none"))
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("num_workers", [2, 4])
def test_the_others_go_on_without_a_host_that_does_not_come_back_in_time(
    digits: Path, one: Path, tmp_path: Path, num_workers: int
) -> None:
    log, last = tmp_path / "logs" / "scheduler.log", f"worker {num_workers - 1}"
    with nodes(digits, tmp_path, num_workers) as job:
        first = job.processes["worker 0"]
        wait_until(lambda: has_step(tmp_path, 13), first)
        job.lose(last)
        wait_until(lambda: "continuing without 1 more worker" in log.read_text(), first)
        job.start(last)
        said = job.wait_for_end()
    assert "1 attempt, and at the end:" in said[last]
    assert "too late for this attempt" in log.read_text()
    assert_same_end(tmp_path, one)


@pytest.mark.slow  # in test_rare_steps.py a run goes on with other numbers of workers again and again
@pytest.mark.timeout(300)
def test_a_job_of_three_goes_on_as_two_and_then_as_three_with_the_bits_of_one_process(
    digits: Path, one: Path, tmp_path: Path
) -> None:
    log = tmp_path / "logs" / "scheduler.log"
    with nodes(digits, tmp_path, 3) as job:
        first = job.processes["worker 0"]
        wait_until(lambda: has_step(tmp_path, 13), first)
        job.lose("worker 2")
        wait_until(lambda: "continuing without 1 more worker" in log.read_text(), first)
        wait_until(lambda: has_step(tmp_path, 22), first)
        (of_two,) = children(first.pid)
        os.kill(of_two, signal.SIGSTOP)  # or two would be done before the third is back
        step = newest(tmp_path).name
        job.start("worker 2")
        wait_until(lambda: "too late for this attempt" in log.read_text(), first)
        os.kill(of_two, signal.SIGKILL)
        said = job.wait_for_end()
    assert int(step[5:]) < 54 and "2 attempts, and at the end:" in said["worker 2"], said
    assert log.read_text().count("continuing without") == 1
    assert_same_end(tmp_path, one)
