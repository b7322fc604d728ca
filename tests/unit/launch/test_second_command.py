"""A second command on one run folder is refused before it writes there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mxtrain import config
from mxtrain.core import folder_lock
from mxtrain.core.errors import UsageError
from mxtrain.launch import local
from mxtrain.launch.plan import ProcessSpec
from mxtrain.launch.supervisor import RestartPolicy, supervise

CLUSTER = ["--kvstore", "dist_sync", "--num-workers", "2"]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A run folder with nothing in it."""
    folder = tmp_path / "run"
    folder.mkdir()
    return folder


def launch(out: Path) -> None:
    words = ["--train", "never/read.rec", "--out", str(out), *CLUSTER]
    local.launch(config.parse(words), words)


def test_a_job_is_refused_where_a_run_writes(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_lock, "ENDING_SECONDS", 0.1)
    handle = folder_lock.lock(out)
    try:
        with pytest.raises(UsageError, match="another mxtrain"):
            launch(out)
    finally:
        os.close(handle)
    assert [path.name for path in out.iterdir()] == [".lock"], "no logs"


def test_a_job_is_refused_where_another_one_is_also_between_its_attempts(out: Path) -> None:
    descriptor = os.open(out, os.O_RDONLY)
    try:
        folder_lock.lock_for_job(out, descriptor, is_whole=True)
        with pytest.raises(UsageError, match="another mxtrain"):
            launch(out)
    finally:
        os.close(descriptor)
    assert list(out.iterdir()) == [], "no logs"


def test_launchers_of_parts_of_a_job_share_its_folder(out: Path) -> None:
    handles = [os.open(out, os.O_RDONLY) for _ in range(3)]
    try:
        for handle in handles[:2]:
            folder_lock.lock_for_job(out, handle, is_whole=False)
        with pytest.raises(UsageError):
            folder_lock.lock_for_job(out, handles[2], is_whole=True)
    finally:
        for handle in handles:
            os.close(handle)


def test_a_run_that_is_ending_is_waited_for(out: Path) -> None:
    hold = f"from mxtrain.core.folder_lock import lock; from pathlib import Path; lock(Path({str(out)!r}))"
    with subprocess.Popen(
        [sys.executable, "-c", f"{hold}; print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as run:
        assert run.stdout and run.stdout.readline()
        run.send_signal(signal.SIGKILL)  # it holds the lock until it has gone
        folder_lock.refuse_where_locked(out)


def test_the_folder_is_free_when_a_job_has_ended(out: Path) -> None:
    def processes(attempt: int) -> list[ProcessSpec]:
        raise UsageError("no free port")

    for _ in range(2):
        with pytest.raises(UsageError, match="no free port"):
            supervise(processes, RestartPolicy(checkpoints=dict, out=out))
