"""The terminal of a run closes, as where a connection breaks: a checkpoint, then the end; under nohup nothing."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import sys
import time
from pathlib import Path

import pytest

from mxtrain.core.errors import DONE, SIGHUP
from tests.support import runs
from tests.support.commands import ROOT

FLAGS = ["--model", "small_cnn", "--image-size", "16", "--augment", "none", "--batch-size", "8"]
CLUSTER = ["--kvstore", "dist_sync", "--num-workers", "2"]
DEADLINE_SECONDS = 60
NUM_STEPS = 60


@pytest.mark.parametrize(
    ("is_ignored", "cluster"),
    [
        (False, []),
        pytest.param(False, CLUSTER, marks=pytest.mark.slow),
        pytest.param(True, [], marks=pytest.mark.slow),
        pytest.param(True, CLUSTER, marks=pytest.mark.slow),
    ],
)
def test_a_terminal_that_closes(shapes: Path, tmp_path: Path, is_ignored: bool, cluster: list[str]) -> None:
    out = tmp_path / "run"
    line = [sys.executable, "-m", "mxtrain.fit", "--train", str(shapes / "train.rec"), "--out", str(out)]
    line += [*FLAGS, *cluster, "--max-steps", str(NUM_STEPS), "--epochs", str(NUM_STEPS)]
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(ROOT)
        if is_ignored:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.execv(line[0], line)
    output = b""
    try:
        end = time.monotonic() + DEADLINE_SECONDS
        while not runs.has_step(out, 3) and time.monotonic() < end:
            if select.select([terminal], [], [], 0.05)[0]:
                output += os.read(terminal, 1 << 12)
        os.close(terminal)
        code = exit_code(pid)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert code == (DONE if is_ignored else SIGHUP), output
    last = max(each["step"] for each in runs.records(out, "train"))
    assert runs.newest(out).name == f"step-{last:08d}" and (last == NUM_STEPS) == is_ignored


def exit_code(pid: int) -> int | None:
    end = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < end:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        time.sleep(0.02)
    return None
