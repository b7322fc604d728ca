"""A host that is gone: the others go on without it, on the same curve, and it waits when it is back."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cluster.processes import children
from tests.cluster.test_fit import BAR, flags, losses
from tests.e2e.conftest import ROOT, Command
from tests.e2e.runs import has_step, wait_until

START_SECONDS = 8  # and as long as it takes for a node to be given up


def node(role: str, port: int, *line: str) -> subprocess.Popen[str]:
    """A role with a supervisor of its own, as each host of a cluster has one."""
    command = [
        sys.executable,
        "-m",
        "mxtrain.launch",
        role,
        "--root",
        f"127.0.0.1:{port}",
        "-n",
        "2",
        "-s",
        "1",
    ]
    return subprocess.Popen(
        [*command, "--", *line], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_others_go_on_without_a_host_that_does_not_come_back_in_time(
    digits: Path, tmp_path: Path, command: Command
) -> None:
    line = flags(digits, tmp_path / "two", "--kvstore", "dist_sync", "--checkpoint-steps", "5")
    line += ["--min-workers", "1", "--start-timeout", str(START_SECONDS), "--silence-timeout", "3"]
    port = free_port()
    nodes: dict[str, Any] = {}
    try:
        for name in ("scheduler", "server", "worker", "other worker"):
            nodes[name] = node(name.split()[-1], port, *line)
        wait_until(lambda: has_step(tmp_path / "two", 13), nodes["worker"])
        for pid in (nodes["other worker"].pid, *children(nodes["other worker"].pid)):
            os.kill(pid, signal.SIGKILL)
        log = tmp_path / "two" / "logs" / "scheduler.log"
        wait_until(lambda: "going on without 1 more worker" in log.read_text(), nodes["worker"])
        nodes["other worker"].communicate(timeout=10)
        nodes["other worker"] = node("worker", port, *line)
        said = {name: process.communicate(timeout=120)[1] for name, process in nodes.items()}
        assert all(process.returncode == 0 for process in nodes.values()), said
        assert "1 life, and at the end:" in said["other worker"]
        assert "too late for this life" in log.read_text()
    finally:
        for process in nodes.values():
            process.kill()
            process.communicate(timeout=10)
    done = command("mxtrain.fit", *flags(digits, tmp_path / "one", "--log", "none"))
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(losses(tmp_path / "two"), losses(tmp_path / "one"), rtol=BAR)
