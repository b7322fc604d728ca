"""Three workers and more: each sample of an epoch once, and after a kill the curve of one process."""

from __future__ import annotations

import itertools
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from tests.support import noting_loss
from tests.support.cluster_run import FLAGS, flags, losses
from tests.support.commands import Command
from tests.support.processes import roles
from tests.support.runs import has_step, wait_until, warm_started


def cluster(num_workers: int) -> list[str]:
    return ["--kvstore", "dist_sync", "--num-workers", str(num_workers), "--start-timeout", "60"]


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    ("num_workers", "counts"),
    [
        (3, [8 + 8 + 8 + 8 + 8 + 2, 24, 24]),  # four micro-batches a step: the first worker has two of them
        pytest.param(4, [24, 24, 24, 18], marks=pytest.mark.slow),
        pytest.param(5, [24, 24, 24, 18, 0], marks=pytest.mark.slow),  # more of them than micro-batches
    ],
)
def test_every_sample_of_an_epoch_is_trained_on_by_one_worker(
    num_workers: int, counts: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    monkeypatch.setenv(noting_loss.FOLDER, str(notes))
    own = ["--train", "tests.support.noting_loss:data", "--loss", "tests.support.noting_loss:loss"]
    one_epoch = ["--max-steps", "3", "--epochs", "1", "--augment", "none"]
    done = command("mxtrain.fit", *FLAGS, *own, "--out", tmp_path / "run", *one_epoch, *cluster(num_workers))
    assert done.returncode == 0, done.stderr
    trained_on = {path.name: [int(line) for line in path.read_text().split()] for path in notes.iterdir()}
    of_workers = [trained_on.get(f"worker-{number}", []) for number in range(num_workers)]
    assert list(map(len, of_workers)) == counts
    assert sorted(itertools.chain(*of_workers)) == list(range(noting_loss.NUM_SAMPLES))


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("num_workers", "role"),
    [
        (3, "worker-2"),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in ((3, "server-0"), (4, "worker-1"))),
    ],
)
def test_a_job_restarts_after_a_kill_on_the_curve_of_one_process(
    digits: Path, tmp_path: Path, command: Command, num_workers: int, role: str
) -> None:
    done = command("mxtrain.fit", *flags(digits, tmp_path / "one", "--log", "none"))
    assert done.returncode == 0, done.stderr
    out = tmp_path / "several"
    with warm_started(*flags(digits, out, *cluster(num_workers), "--checkpoint-steps", "5")) as run:
        wait_until(lambda: has_step(out, 13), run)
        os.kill(roles(run.pid)[role], signal.SIGKILL)
        _, said = run.communicate(timeout=200)
    assert run.returncode == 0, said
    assert role in said and "SIGKILL" in said and "restart 1 of 3" in said
    np.testing.assert_array_equal(losses(out), losses(tmp_path / "one"))
