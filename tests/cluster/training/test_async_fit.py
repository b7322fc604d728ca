"""`fit --kvstore dist_async`: nobody waits, it learns, and it goes on after a kill with the servers' state."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from mxtrain.runtime import mx
from tests.support.commands import Command
from tests.support.jobs.cluster_run import FLAGS
from tests.support.process_tree import roles
from tests.support.runs import has_step, records, wait_until, warm_started

ASYNC = ["--kvstore", "dist_async", "--num-servers", "2", "--max-steps", "0", "--epochs", "2"]
TWO_WORKERS = ["--num-workers", "2"]
FAST = ["--optimizer", "adamw", "--lr", "0.004", "--max-steps", "12", "--threads", "1", "--log", "none"]
MOMENTUM_STEPS = 10  # between checkpoints


@pytest.mark.timeout(200)
@pytest.mark.parametrize("num_workers", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_an_async_run_learns_and_resumes_after_a_server_is_killed(
    digits: Path, tmp_path: Path, num_workers: int
) -> None:
    line = ["--train", str(digits / "train.rec"), "--val", str(digits / "val.rec"), "--out", str(tmp_path)]
    line += [*FLAGS, *ASYNC, "--num-workers", str(num_workers), "--checkpoint-steps", str(MOMENTUM_STEPS)]
    with warm_started(*line) as run:
        wait_until(lambda: has_step(tmp_path, 25), run)
        os.kill(roles(run.pid)["server-1"], signal.SIGKILL)
        _, said = run.communicate(timeout=150)
    assert run.returncode == 0, said
    assert "server-1 was killed by SIGKILL" in said
    steps = records(tmp_path, "train")
    assert [record["step"] for record in steps] == list(range(1, len(steps) + 1)), "none twice, none missing"
    assert all(record["staleness"] >= 0 for record in steps)
    assert records(tmp_path, "eval")[-1]["val_accuracy"] > 0.85
    newest = max((tmp_path / "checkpoints").glob("step-*"))
    momenta = mx.nd.load(str(newest / "optimizer.params"))
    assert momenta and all(np.isfinite(each.asnumpy()).all() for each in momenta.values())
    assert any(each.asnumpy().any() for each in momenta.values())


@pytest.mark.slow  # tests/cluster/sums/test_async.py has such averages
@pytest.mark.timeout(100)
def test_workers_without_samples_move_no_running_statistics(
    shapes: Path, tmp_path: Path, command: Command
) -> None:
    """Three workers and one micro-batch a step: what comes of it is one process's curve."""
    line = ["--train", shapes / "train.rec", "--val", shapes / "val.rec", *FLAGS, "--max-steps", "4"]
    line += ["--model", "benchmarks.same_curve.nets:with_batch_norm", "--augment", "none"]
    line += ["--epochs", "4", "--batch-size", "192", "--micro-batch", "64"]
    for name, cluster in (("one", []), ("three", ["--kvstore", "dist_async", "--num-workers", "3"])):
        done = command("mxtrain.fit", *line, *cluster, "--out", tmp_path / name)
        assert done.returncode == 0, done.stderr
    one, three = (records(tmp_path / name, "eval") for name in ("one", "three"))
    assert [each["step"] for each in three] == [1, 2, 3, 4]
    for ours, alone in zip(three, one):
        assert ours["val_loss"] == pytest.approx(alone["val_loss"], rel=1e-4)
        assert ours["val_accuracy"] == alone["val_accuracy"]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (["--ema", "0.99"], "--ema 0.99 with --kvstore dist_async"),
        (["--compress", "2bit"], "--compress 2bit with --kvstore dist_async"),
        (["--optimizer", "lamb"], "--optimizer lamb with --kvstore dist_async"),
        (["--micro-batch", "32"], "--num-workers 2 with --kvstore dist_async"),
    ],
)
def test_unsupported_flags_are_refused(
    digits: Path, tmp_path: Path, command: Command, more: list[str], reason: str
) -> None:
    line = ["--train", digits / "train.rec", "--out", tmp_path, *FLAGS, *ASYNC, *TWO_WORKERS, *more]
    done = command("mxtrain.fit", *line)
    assert done.returncode == 2 and reason in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.slow  # test_async.py holds it in small: one of its parameters has a rate of its own
@pytest.mark.timeout(150)
def test_rates_of_layers_are_the_servers_too(shapes: Path, tmp_path: Path, command: Command) -> None:
    sets = ["--train", shapes / "train.rec", "--val", shapes / "val.rec"]
    flags = [
        *("--model", "small_cnn", "--image-size", "24", "--val-resize", "24", "--batch-size", "16"),
        *FAST,
    ]
    rates = ["--layer-decay", "0.5", "--lr-scale", "0.*=3"]
    runs = {
        "own": rates,
        "servers": [*rates, "--kvstore", "dist_async", "--num-workers", "1", "--sums", "fast"],
        "alike": [],
    }
    losses = {}
    for name, more in runs.items():
        done = command("mxtrain.fit", *sets, "--out", tmp_path / name, *flags, *more, timeout=100)
        assert done.returncode == 0, done.stderr
        losses[name] = [each["loss"] for each in records(tmp_path / name, "train")]
    np.testing.assert_allclose(losses["servers"], losses["own"], rtol=1e-4)
    assert not np.allclose(losses["alike"], losses["own"], rtol=1e-2)
