"""`fit` over a parameter server: one command, the curve of one process to the bit, also after a kill.

Mappings and recipes are `test_mappings.py`'s.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from mxtrain import config
from mxtrain.data.loading import run_plan, sample_requests
from mxtrain.data.records import record_sets
from tests.support.commands import Command
from tests.support.data import damaged_data
from tests.support.jobs.cluster_run import CLUSTER, flags, losses, weights
from tests.support.losses import overflowing_loss, slow_loss
from tests.support.process_tree import roles
from tests.support.runs import assert_same_end, has_step, records, wait_until, warm_started

THREE = ["--kvstore", "dist_sync", "--num-workers", "3", "--start-timeout", "60"]


@pytest.fixture(scope="module")
def whole(digits: Path, tmp_path_factory: pytest.TempPathFactory, command: Command) -> Path:
    """The run folder of two workers that nothing disturbs."""
    out = tmp_path_factory.mktemp("whole")
    done = command("mxtrain.fit", *flags(digits, out, *CLUSTER))
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.slow  # tests/e2e/fit/test_loading.py counts them in one process
@pytest.mark.timeout(300)
def test_bad_records_count_alike_whichever_worker_reads_them(
    digits: Path, tmp_path: Path, command: Command
) -> None:
    damaged_data.copy(digits / "train.rec", tmp_path / "train.rec", {100, 400, 900})
    damaged_data.copy(digits / "val.rec", tmp_path / "val.rec", set())
    more = [
        "--skip-bad",
        "3",
        "--batch-size",
        "96",
        "--micro-batch",
        "24",
        "--max-steps",
        "18",
    ]  # an epoch has 17
    for name, cluster in (("one", []), ("three", THREE)):
        done = command("mxtrain.fit", *flags(tmp_path, tmp_path / name, *more, *cluster))
        assert done.returncode == 0, done.stderr
    assert_same_end(tmp_path / "three", tmp_path / "one")
    assert records(tmp_path / "three", "train")[-1]["bad_records"] == 3


@pytest.mark.slow  # test_store.py and test_buckets.py have small nets
@pytest.mark.timeout(200)
def test_a_net_of_many_buckets_whose_convolutions_store_weights_in_their_own_layout(
    digits: Path, tmp_path: Path, command: Command
) -> None:
    """45 MB of gradients; MXNet's convolutions lay weights out for their kernels, and such arrays have no views."""
    more = ["--model", "resnet18_v1b", "--image-size", "32", "--val-resize", "32", "--micro-batch", "16"]
    more += ["--max-steps", "2", "--augment", "none"]
    for name, cluster in (("one", []), ("two", CLUSTER)):
        done = command("mxtrain.fit", *flags(digits, tmp_path / name, *more, *cluster))
        assert done.returncode == 0, done.stderr
    assert_same_end(tmp_path / "two", tmp_path / "one")


@pytest.mark.slow  # tests/unit/cluster/test_coordinator.py: a slow worker that makes progress is waited for
@pytest.mark.timeout(200)
def test_a_step_of_many_micro_batches_may_take_longer_than_the_stall_timeout(
    digits: Path, tmp_path: Path, command: Command
) -> None:
    seconds, num_each = 8, 9
    assert num_each * slow_loss.MICRO_BATCH_SECONDS > seconds
    more = [
        "--loss",
        "tests.support.losses.slow_loss:loss",
        "--stall-timeout",
        str(seconds),
        "--max-restarts",
        "0",
    ]
    more += ["--batch-size", str(2 * num_each), "--micro-batch", "1", "--max-steps", "1"]
    done = command("mxtrain.fit", *flags(digits, tmp_path / "run", *CLUSTER, *more))
    assert done.returncode == 0, done.stderr
    assert records(tmp_path / "run", "train")[0]["seconds"] > seconds


@pytest.mark.slow  # tests/engine/train/test_evaluation.py: progress is reported with every micro-batch
@pytest.mark.timeout(200)
def test_an_evaluation_may_take_longer_than_the_stall_timeout(
    shapes: Path, tmp_path: Path, command: Command
) -> None:
    seconds, num_each = 8, 8
    assert num_each * slow_loss.SAMPLE_SECONDS > seconds
    more = [
        "--model",
        "tests.support.losses.slow_loss:Net",
        "--stall-timeout",
        str(seconds),
        "--max-restarts",
        "0",
    ]
    more += ["--batch-size", "2", "--micro-batch", "1", "--max-steps", "1"]
    done = command("mxtrain.fit", *flags(shapes, tmp_path / "run", *CLUSTER, *more))
    assert done.returncode == 0, done.stderr
    assert records(tmp_path / "run", "eval")[0]["num_samples"] == 2 * num_each


@pytest.mark.slow  # tests/unit/cluster/test_coordinator.py: a sum may take several messages
@pytest.mark.timeout(200)
def test_an_evaluation_may_keep_more_than_a_message_holds(
    shapes: Path, tmp_path: Path, command: Command
) -> None:
    """82 MB of 64 samples, over three workers."""
    more = [
        "--max-steps",
        "1",
        "--metric",
        "tests.support.user_code.user_metrics:KeepsMuch",
        "--num-workers",
        "3",
    ]
    data = ["--val", shapes / "train.rec"]
    done = command("mxtrain.fit", *flags(shapes, tmp_path / "run", *CLUSTER, *more), *data)
    assert done.returncode == 0, done.stderr
    (scores,) = records(tmp_path / "run", "eval")
    assert (
        scores["val_kept"] == 160_000 * scores["num_samples"]
        and scores["num_samples"] * 160_000 * 8 > 64 << 20
    )


# tests/faults/test_inside.py kills a worker, test_matrix.py a server, and both ask for the same curve to the bit.
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("role", ["worker-1", "server-0", "scheduler", "worker-0"])
def test_a_job_restarts_after_a_kill_and_makes_the_same_curve_to_the_bit(
    digits: Path, whole: Path, tmp_path: Path, role: str
) -> None:
    with warm_started(*flags(digits, tmp_path, *CLUSTER, "--checkpoint-steps", "5")) as run:
        wait_until(lambda: has_step(tmp_path, 13), run)
        os.kill(roles(run.pid)[role], signal.SIGKILL)
        _, said = run.communicate(timeout=120)
    assert run.returncode == 0, said
    assert role in said and "SIGKILL" in said and "restart 1 of 3" in said
    assert losses(tmp_path).tolist() == losses(whole).tolist()
    assert weights(tmp_path) == weights(whole)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_two_bit_gradients_learn_as_well_and_repeat_after_a_kill(
    digits: Path, tmp_path: Path, command: Command
) -> None:
    """Residuals of the compression are dropped at every checkpoint, whether the run is killed or not."""
    longer = ["--max-steps", "0", "--epochs", "4", "--checkpoint-steps", "20"]
    accuracies = []
    for compress in ("none", "2bit"):
        out = tmp_path / compress
        done = command("mxtrain.fit", *flags(digits, out, *CLUSTER, *longer, "--compress", compress))
        assert done.returncode == 0, done.stderr
        accuracies.append(records(out, "eval")[-1]["val_accuracy"])
    assert accuracies[1] > accuracies[0] - 0.03 and accuracies[0] > 0.85
    killed = tmp_path / "killed"
    with warm_started(*flags(digits, killed, *CLUSTER, *longer, "--compress", "2bit")) as run:
        wait_until(lambda: has_step(killed, 50), run)
        os.kill(roles(run.pid)["worker-1"], signal.SIGKILL)
        _, said = run.communicate(timeout=120)
    assert run.returncode == 0, said
    assert records(killed, "train")[-1]["loss"] == records(tmp_path / "2bit", "train")[-1]["loss"]


@pytest.mark.timeout(120)
def test_ctrl_c_ends_all_workers_after_the_same_step(digits: Path, tmp_path: Path, command: Command) -> None:
    few = ["--max-steps", "20"]
    assert command("mxtrain.fit", *flags(digits, tmp_path / "one", *few)).returncode == 0
    line = flags(digits, tmp_path / "two", *few, *CLUSTER)
    with warm_started(*line) as run:
        wait_until(lambda: has_step(tmp_path / "two", 3), run)
        os.kill(run.pid, signal.SIGINT)
        _, said = run.communicate(timeout=60)
    assert run.returncode == 130, said
    done = command("mxtrain.fit", *line)
    assert done.returncode == 0, done.stderr
    assert "resuming from" in (tmp_path / "two" / "logs" / "worker-0.log").read_text()
    assert_same_end(tmp_path / "two", tmp_path / "one")


@pytest.mark.slow  # test_rare_steps.py has steps that one of three skips
@pytest.mark.timeout(200)
def test_an_overflow_on_one_worker_is_skipped_by_all(digits: Path, tmp_path: Path, command: Command) -> None:
    more = ["--batch-size", "16", "--micro-batch", "4", "--max-steps", "16", "--clip-norm", "1"]
    more += [
        "--loss",
        "tests.support.losses.overflowing_loss:loss",
        "--loss-scale",
        "dynamic",
        "--lr",
        "0.01",
    ]
    for name, cluster in (("one", []), ("two", CLUSTER)):
        done = command("mxtrain.fit", *flags(digits, tmp_path / name, *more, *cluster))
        assert done.returncode == 0, done.stderr
    assert_same_end(tmp_path / "two", tmp_path / "one")
    trained = records(tmp_path / "two", "train")
    assert trained[-1]["loss_scale"] == overflowing_loss.LARGEST_SCALE

    run = config.read(tmp_path / "two" / "config.yaml")
    labels = record_sets.open_set(str(digits / "train.rec")).labels()
    samples_of, plan = sample_requests.epoch_sampler(run, labels), run_plan.of_run(run, len(labels))
    hit = [
        {request.step for request in requests if overflowing_loss.RARE_LABEL in labels[request.samples]}
        for requests in (
            list(sample_requests.training_requests(samples_of, plan, range(16), worker)) for worker in (0, 1)
        )
    ]
    skipped = {record["step"] - 1 for record in trained if not record["applied"]}
    assert skipped & (hit[0] - hit[1]) and skipped & (hit[1] - hit[0]), "each worker alone made all skip"
