"""A disk that fills up in the middle: the job ends and says so, and goes on when there is room again."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path
from typing import Iterator

import pytest

from mxtrain.core.errors import USAGE
from tests.faults.case import DONE_SECONDS, REFUSED_SECONDS
from tests.faults.job import CLUSTER, result, started, until
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


def test_a_full_disk_ends_the_job_and_room_lets_it_go_on(
    disk: Path, tmp_path: Path, data: list[str], whole: tuple[object, ...]
) -> None:
    with started(tmp_path, *data, *CLUSTER) as job:
        assert until(lambda: has_step(job.out, 7), DONE_SECONDS), job.said()
        fill(disk / "filler")
        assert until(job.has_ended, REFUSED_SECONDS), job.said()
        assert job.process.returncode == USAGE, job.said() + job.logged()
        assert "No space left on device" in job.said() and "make room" in job.said()
        assert job.traces.left() == []
    (disk / "filler").unlink()
    with started(tmp_path, *data, *CLUSTER) as job:
        assert until(job.has_ended, DONE_SECONDS)
        assert job.process.returncode == 0, job.said()
    assert result(job.out) == whole


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        for size in (1 << 16, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(size))
