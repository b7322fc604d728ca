"""A second job that is given the address of a first one: refused in a line, and the first ends with its own bits."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest

from mxtrain.core.errors import USAGE
from mxtrain.launch.local import free_port
from tests.support.commands import Command
from tests.support.jobs.cluster_run import flags, losses, weights
from tests.support.jobs.ps_sh import Run, all_started, role_commands
from tests.support.losses import paused_loss
from tests.support.process_tree import children
from tests.support.runs import has_step, wait_until

STRAY_SECONDS = 60


def started(line: list[str], stack: contextlib.ExitStack) -> Run[str]:
    (run,) = stack.enter_context(all_started([line], [{}]))
    return run


def assert_refused(run: Run[str], *words: str) -> None:
    said = run.communicate(timeout=STRAY_SECONDS)[0]
    assert run.returncode == USAGE, said
    # One that comes second to a place is told so, and again, with another reason, when it has started anew.
    reasons = [line.partition("mxtrain.fit: ")[2] for line in said.splitlines() if "mxtrain.fit: " in line]
    assert reasons and all(word in reason for reason in reasons for word in words), said
    assert "Traceback" not in said


@pytest.mark.slow  # with processes that do not train: tests/unit/cluster/test_membership.py
@pytest.mark.timeout(300)
def test_strays_that_come_first_or_while_a_dead_worker_is_missed_change_nothing(
    digits: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = ["--checkpoint-steps", "5", "--loss", "tests.support.losses.paused_loss:loss"]
    pause = tmp_path / "pause"
    monkeypatch.setenv(paused_loss.PAUSE, str(pause))
    alone = command("mxtrain.fit", *flags(digits, tmp_path / "alone", *more), timeout=100)
    assert alone.returncode == 0, alone.stderr
    port = str(free_port())
    lines = role_commands(port, flags(digits, tmp_path / "a", *more))
    of_others = role_commands(port, flags(digits, tmp_path / "b", *more, "--lr", "0.001"))
    of_alike = role_commands(port, flags(digits, tmp_path / "c", *more))
    with contextlib.ExitStack() as stack:
        early = [started(line, stack) for line in (of_others[1], of_others[3])]
        time.sleep(5)  # until they wait for a scheduler
        runs = [started(line, stack) for line in lines]
        for run in early:
            assert_refused(run, "another job", "another --root")
        wait_until(lambda: has_step(tmp_path / "a", 8), runs[2])
        pause.touch()  # the job is still there when the strays have come, however late that is
        assert_refused(started(of_others[0], stack), "another program has this port", "as --root")
        assert_refused(started(of_alike[2], stack), "another job holds", "give this job another --root")

        supervisor, (worker,) = runs[3], children(runs[3].pid)
        supervisor.send_signal(signal.SIGSTOP)  # its place stays free for a while
        os.kill(worker, signal.SIGKILL)
        late = [started(line, stack) for line in (of_others[3], of_alike[3], of_alike[1])]
        for run in late:
            assert_refused(run, "another job holds 127.0.0.1:" + port, "give this job another --root")
        pause.unlink()
        supervisor.send_signal(signal.SIGCONT)
        said = [run.communicate(timeout=120)[0] for run in runs]
        assert [run.returncode for run in runs] == [0] * 4, said
    assert "worker-1 was killed by SIGKILL; restart 1 of 3" in said[3]
    assert losses(tmp_path / "a").tolist() == losses(tmp_path / "alone").tolist()
    assert weights(tmp_path / "a") == weights(tmp_path / "alone")
