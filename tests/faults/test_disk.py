"""A disk that fills up during a job: the job ends with the reason, and resumes when there is room again."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Iterator

import pytest

from mxtrain.core.errors import USAGE
from tests.faults.case import DONE_SECONDS, REFUSED_SECONDS
from tests.faults.job import CLUSTER, FLAGS, result, started, wait_for
from tests.faults.samples import ROOT
from tests.support.runs import has_step

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A run folder that is a disk of its own, of 8 MB."""
    if os.geteuid():
        pytest.skip("needs root, to mount a small disk")
    folder = tmp_path / "run"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)], check=True, timeout=20)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True, timeout=20)


@pytest.mark.slow  # tests/e2e/ends/test_kill.py has a full disk, of one process
def test_a_full_disk_ends_the_job_and_with_room_it_resumes(
    disk: Path, tmp_path: Path, data: list[str], undisturbed: tuple[object, ...]
) -> None:
    with started(tmp_path, *data, *CLUSTER) as job:
        assert wait_for(lambda: has_step(job.out, 7), DONE_SECONDS), job.output()
        fill(disk / "filler")
        assert wait_for(job.has_ended, REFUSED_SECONDS), job.output()
        assert job.process.returncode == USAGE, job.output() + job.logs()
        assert "No space left on device" in job.output() and "make room" in job.output()
        assert job.traces.left_behind() == []
    (disk / "filler").unlink()
    with started(tmp_path, *data, *CLUSTER) as job:
        assert wait_for(job.has_ended, DONE_SECONDS)
        assert job.process.returncode == 0, job.output()
    assert result(job.out) == undisturbed


@pytest.mark.slow
@pytest.mark.parametrize("options", ["ro", "nr_inodes=1"])
def test_a_job_does_without_sockets_in_tmp(
    options: str, tmp_path: Path, data: list[str], undisturbed: tuple[object, ...]
) -> None:
    if os.geteuid():
        pytest.skip("needs root, to mount another /tmp")
    # What pytest has in /tmp stays visible below /mnt, and so does a checkout there.
    root, python, *there = (
        re.sub("^/tmp/", "/mnt/", word)
        for word in (str(ROOT), sys.executable, *data, "--out", str(tmp_path / "run"))
    )
    line = [python, "-m", "mxtrain.fit", *FLAGS, *CLUSTER, *there]
    mount = f'mount --bind /tmp /mnt && mount -t tmpfs -o {options} tmpfs /tmp && cd "$0" && exec "$@"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", mount, root, *line],
        **{"cwd": ROOT, "text": True, "timeout": DONE_SECONDS, "capture_output": True},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "/tmp: no socket can be made there" in done.stdout and "DMLC_LOCAL=0" in done.stdout
    assert result(tmp_path / "run") == undisturbed


def fill(path: Path) -> None:
    """Write until the disk is full to the byte."""
    with path.open("wb", buffering=0) as file:
        for size in (1 << 16, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(size))
