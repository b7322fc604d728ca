"""Roles started one by one: by a tracker that sets DMLC_* only, and by launch/ps.sh on each host."""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from tests.support.jobs.cluster_run import flags, losses, weights
from tests.support.jobs.ps_sh import ROLES, all_started, role_commands
from tests.support.process_tree import children
from tests.support.runs import has_step, wait_until


@pytest.fixture
def port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@pytest.mark.slow  # roles that are started one by one: tests/faults/test_refusals.py
@pytest.mark.timeout(300)
def test_roles_started_one_by_one_make_the_same_weights_also_after_a_kill(
    digits: Path, tmp_path: Path, port: str
) -> None:
    """The variables alone as a tracker sets them, undisturbed; then launch/ps.sh, where a worker is killed."""
    own = {"DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": port}
    own.update(DMLC_NUM_WORKER="2", DMLC_NUM_SERVER="1")
    line = [sys.executable, "-m", "mxtrain.fit", *flags(digits, tmp_path / "a", "--kvstore", "dist_sync")]
    with all_started([line] * 4, [{**own, "DMLC_ROLE": role} for role in ROLES]) as runs:
        said = [run.communicate(timeout=120)[0] for run in runs]
        assert [run.returncode for run in runs] == [0] * 4, said

    lines = role_commands(port, flags(digits, tmp_path / "b", "--checkpoint-steps", "5"))
    with all_started(lines, [{}] * 4) as runs:
        wait_until(lambda: has_step(tmp_path / "b", 13), runs[2])
        (worker,) = children(runs[3].pid)
        os.kill(worker, signal.SIGKILL)
        said = [run.communicate(timeout=120)[0] for run in runs]
        assert [run.returncode for run in runs] == [0] * 4, said
    assert "worker-1 was killed by SIGKILL; restart 1 of 3" in said[3]
    assert all("left: worker-1 (" in text and "died" in text for text in said[:3])
    assert all("2 attempts, and at the end:" in text for text in said)
    assert losses(tmp_path / "a").tolist() == losses(tmp_path / "b").tolist()
    assert weights(tmp_path / "a") == weights(tmp_path / "b")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_frozen_worker_is_killed_and_the_job_restarts(digits: Path, tmp_path: Path, port: str) -> None:
    """Its supervisor has no other process whose end could show that something is wrong."""
    lines = role_commands(port, flags(digits, tmp_path, "--checkpoint-steps", "5", "--silence-timeout", "3"))
    with all_started(lines, [{}] * 4) as runs:
        wait_until(lambda: has_step(tmp_path, 13), runs[2])
        (worker,) = children(runs[3].pid)
        os.kill(worker, signal.SIGSTOP)
        said = [run.communicate(timeout=200)[0] for run in runs]
        assert [run.returncode for run in runs] == [0] * 4, said
    assert "worker-1 is held by SIGSTOP or a debugger; killed" in said[3]
    assert all("left: worker-1 (" in text and "is silent for" in text for text in said[:3])
    assert all("2 attempts, and at the end:" in text for text in said)
