"""A lost host: with --min-workers the others go on without it, on the same curve, and it waits when it is back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.launch.local import free_port
from tests.support.cluster_run import flags, losses
from tests.support.commands import ROOT, Command
from tests.support.processes import children
from tests.support.runs import has_step, wait_until

START_SECONDS = 8  # and as long as it takes for a node to be given up


def node(role: str, port: int, num_workers: int, *line: str) -> subprocess.Popen[str]:
    """A role with a supervisor of its own, as each host of a cluster has one."""
    command = [
        sys.executable,
        "-m",
        "mxtrain.launch",
        role,
        "--root",
        f"127.0.0.1:{port}",
        "-n",
        str(num_workers),
        "-s",
        "1",
    ]
    return subprocess.Popen(
        [*command, "--", *line], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("num_workers", [2, 4])
def test_the_others_go_on_without_a_host_that_does_not_come_back_in_time(
    digits: Path, tmp_path: Path, command: Command, num_workers: int
) -> None:
    out, num_left = tmp_path / "some", num_workers - 1
    line = flags(digits, out, "--kvstore", "dist_sync", "--checkpoint-steps", "5", "--silence-timeout", "3")
    line += ["--min-workers", str(num_left), "--start-timeout", str(num_workers * START_SECONDS // 2)]
    port = free_port()
    nodes: dict[str, Any] = {}
    try:
        for name in (
            "scheduler",
            "server",
            *(f"worker {number}" for number in range(num_left)),
            "worker lost",
        ):
            nodes[name] = node(name.split()[0], port, num_workers, *line)
        wait_until(lambda: has_step(out, 13), nodes["worker 0"])
        for pid in (nodes["worker lost"].pid, *children(nodes["worker lost"].pid)):
            os.kill(pid, signal.SIGKILL)
        log = out / "logs" / "scheduler.log"
        wait_until(lambda: "continuing without 1 more worker" in log.read_text(), nodes["worker 0"])
        nodes["worker lost"].communicate(timeout=10)
        nodes["worker lost"] = node("worker", port, num_workers, *line)
        said = {name: process.communicate(timeout=120)[1] for name, process in nodes.items()}
        assert all(process.returncode == 0 for process in nodes.values()), said
        assert "1 attempt, and at the end:" in said["worker lost"]
        assert "too late for this attempt" in log.read_text()
    finally:
        for process in nodes.values():
            process.kill()
            process.communicate(timeout=10)
    done = command("mxtrain.fit", *flags(digits, tmp_path / "one", "--log", "none"))
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(losses(out), losses(tmp_path / "one"))
