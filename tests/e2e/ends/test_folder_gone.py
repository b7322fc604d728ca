"""A run whose folder is taken away under it says so in one line, and nothing begins anew without a word."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import Callable

import pytest

from mxtrain.core.errors import USAGE
from tests.support.breadth import slow_cases
from tests.support.jobs.shapes_run import flags
from tests.support.runs import has_step, wait_until, warm_started

LONG = ["--epochs", "500", "--checkpoint-steps", "7", "--log", "none"]


def remove(out: Path) -> None:
    shutil.rmtree(out, ignore_errors=True)
    shutil.rmtree(out, ignore_errors=True)  # what a write under way has put there meanwhile


def move(out: Path) -> None:
    out.rename(out.with_name("moved"))


def remove_metrics(out: Path) -> None:
    (out / "metrics.jsonl").unlink()


@pytest.mark.parametrize("take", [move, *slow_cases(remove, remove_metrics)])
def test_one_process_says_so_in_one_line(shapes: Path, tmp_path: Path, take: Callable[[Path], None]) -> None:
    out = tmp_path / "run"
    with warm_started(*flags(shapes, out), *LONG) as run:
        wait_until(lambda: has_step(out, 8), run)
        take(out)
        said = run.communicate(timeout=60)[1]
    assert run.returncode == USAGE, said
    assert "Traceback" not in said
    last = said.splitlines()[-1]
    assert last.startswith(f"mxtrain.fit: {out}") and "cannot be written (No such file or directory)" in last
    assert "removed or moved away? put it back" in last
    assert not has_step(out, 1) or take is remove_metrics


@pytest.mark.timeout(200)
@pytest.mark.parametrize("dies", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_job_of_two_workers_does_not_begin_anew(shapes: Path, tmp_path: Path, dies: bool) -> None:
    out = tmp_path / "run"
    job = ["--kvstore", "dist_sync", "--num-workers", "2", "--devices", "cpu"]
    with warm_started(*flags(shapes, out), *job, *LONG) as run:
        wait_until(lambda: has_step(out, 8), run)
        if dies:
            pids = [int(pid) for pid in Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()]
            remove(out)
            os.kill(pids[-1], signal.SIGKILL)
        else:
            remove(out)
        said = run.communicate(timeout=120)[1]
    assert run.returncode == USAGE, said
    assert "Traceback" not in said and "put it back" in said, said
    assert "1 attempt, and at the end" in said and not has_step(out, 1)
