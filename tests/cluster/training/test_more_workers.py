"""Three workers and more: each sample of an epoch once, and the bits of one process also after kills and stalls."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.support.commands import Command
from tests.support.jobs.cluster_run import FLAGS, flags
from tests.support.losses import noting_loss
from tests.support.process_tree import roles
from tests.support.processes.warm_start import WarmProcess
from tests.support.runs import assert_same_end, has_step, wait_until, warm_started

SHORTEST_HOLD_SECONDS, PAUSE_SECONDS = 0.05, 0.5
SHORTER = ["--max-steps", "30"]


def cluster(num_workers: int, num_servers: int = 1) -> list[str]:
    counts = ["--num-workers", str(num_workers), "--num-servers", str(num_servers)]
    return ["--kvstore", "dist_sync", *counts, "--start-timeout", "60"]


@pytest.fixture(scope="module")
def one(digits: Path, tmp_path_factory: pytest.TempPathFactory, command: Command) -> Path:
    """The run folder of one process."""
    out = tmp_path_factory.mktemp("one")
    done = command("mxtrain.fit", *flags(digits, out, *SHORTER))
    assert done.returncode == 0, done.stderr
    return out


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
    own = [
        "--train",
        "tests.support.losses.noting_loss:data",
        "--loss",
        "tests.support.losses.noting_loss:loss",
    ]
    one_epoch = ["--max-steps", "3", "--epochs", "1", "--augment", "none"]
    done = command("mxtrain.fit", *FLAGS, *own, "--out", tmp_path / "run", *one_epoch, *cluster(num_workers))
    assert done.returncode == 0, done.stderr
    trained_on = {path.name: [int(line) for line in path.read_text().split()] for path in notes.iterdir()}
    of_workers = [trained_on.get(f"worker-{number}", []) for number in range(num_workers)]
    assert list(map(len, of_workers)) == counts
    assert sorted(itertools.chain(*of_workers)) == list(range(noting_loss.NUM_SAMPLES))


@pytest.mark.slow  # tests/faults/test_inside.py kills one of three workers, and asks for the same bits
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("num_workers", "role"), [(3, "worker-2"), (3, "server-0"), (4, "worker-1")])
def test_a_job_restarts_after_a_kill_and_ends_with_the_bits_of_one_process(
    digits: Path, one: Path, tmp_path: Path, num_workers: int, role: str
) -> None:
    with warm_started(
        *flags(digits, tmp_path, *SHORTER, *cluster(num_workers), "--checkpoint-steps", "5")
    ) as run:
        wait_until(lambda: has_step(tmp_path, 13), run)
        os.kill(roles(run.pid)[role], signal.SIGKILL)
        _, said = run.communicate(timeout=200)
    assert run.returncode == 0, said
    assert role in said and "SIGKILL" in said and "restart 1 of 3" in said
    assert_same_end(tmp_path, one)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(  # longest: less than --silence-timeout
    ("num_jobs", "longest_hold_seconds"), [(1, 0.2), pytest.param(20, 2.0, marks=pytest.mark.slow)]
)
def test_jobs_whose_workers_are_held_at_random_moments_have_the_same_bits(
    digits: Path, one: Path, tmp_path: Path, num_jobs: int, longest_hold_seconds: float
) -> None:
    """Who comes first to a sum changes all the time; what it is does not, nor does what a job initialises race it."""
    for number in range(num_jobs):
        seed, out = random.SystemRandom().randrange(10**6), tmp_path / str(number)
        with warm_started(*flags(digits, out, *SHORTER, *cluster(3, num_servers=1 + number % 2))) as run:
            num_held = hold_workers(run, random.Random(seed), longest_hold_seconds)
            _, said = run.communicate(timeout=60)
        assert run.returncode == 0 and "restart" not in said, (seed, said)
        assert num_held > 2, "nothing was disturbed"
        assert_same_end(out, one)


def hold_workers(run: WarmProcess, rng: random.Random, longest_seconds: float) -> int:
    """Hold one worker after the other for a while until the run has ended, and return how often that was."""
    span = longest_seconds / SHORTEST_HOLD_SECONDS
    num_held = 0
    while run.poll() is None:
        workers = [pid for name, pid in roles(run.pid).items() if name.startswith("worker")]
        if workers:
            pid = rng.choice(workers)
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(pid, signal.SIGSTOP)
                time.sleep(SHORTEST_HOLD_SECONDS * span ** rng.random())
                os.kill(pid, signal.SIGCONT)
                num_held += 1
        time.sleep(rng.uniform(0, PAUSE_SECONDS))
    return num_held
