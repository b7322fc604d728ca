"""`fit` over a parameter server: one command, the curve of one process; with two workers the same bits after a kill."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from mxtrain import config
from mxtrain.data import record_sets, sample_requests
from tests.support import damaged_data, overflowing_loss, slow_loss
from tests.support.amp import needs_bf16
from tests.support.cluster_run import BAR, CLUSTER, flags, losses, records, weights
from tests.support.commands import Command
from tests.support.processes import roles
from tests.support.runs import has_step, newest, wait_until, warm_started

CLUSTERS = {
    # Of four micro-batches the first has two.
    "three workers": ["--kvstore", "dist_sync", "--num-workers", "3", "--start-timeout", "60"],
    "four workers, two servers": [
        *("--kvstore", "dist_sync", "--num-workers", "4", "--num-servers", "2", "--start-timeout", "60"),
    ],
}
OPTIMIZERS = {
    "sgd": ["--optimizer", "sgd"],
    "adam": ["--optimizer", "adam"],
    "adamw": ["--optimizer", "adamw"],
}


@pytest.fixture(scope="module")
def whole(digits: Path, tmp_path_factory: pytest.TempPathFactory, command: Command) -> Path:
    """The run folder of two workers that nothing disturbs."""
    out = tmp_path_factory.mktemp("whole")
    done = command("mxtrain.fit", *flags(digits, out, *CLUSTER))
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "optimizer", ["sgd", *(pytest.param(name, marks=pytest.mark.slow) for name in ("adam", "adamw"))]
)
def test_workers_make_the_curve_of_one_process(
    digits: Path, tmp_path: Path, command: Command, optimizer: str
) -> None:
    """Bad records count alike, whichever worker reads them."""
    damaged_data.copy(digits / "train.rec", tmp_path / "train.rec", {100, 400, 900})
    damaged_data.copy(digits / "val.rec", tmp_path / "val.rec", set())
    more = [*OPTIMIZERS[optimizer], "--skip-bad", "3"]
    alone = tmp_path / "one"
    done = command("mxtrain.fit", *flags(tmp_path, alone, *more, "--log", "none"))
    assert done.returncode == 0, done.stderr
    for name, cluster in CLUSTERS.items():
        shared = tmp_path / name
        done = command("mxtrain.fit", *flags(tmp_path, shared, *more, *cluster))
        assert done.returncode == 0, done.stderr
        np.testing.assert_array_equal(losses(shared), losses(alone), err_msg=name)
        assert_same_checkpoint(shared, alone)
        _same_evaluations(shared, alone)
        found = [
            [record.get("bad_records", 0) for record in records(out, "train")] for out in (shared, alone)
        ]
        assert found[0] == found[1] and found[0][-1] == 3


RECIPES = {
    "adamw_ema": "--optimizer adamw --lr 0.003 --ema 0.9 --mixup 0.2 --clip-norm 1",
    "lamb_cutmix": "--optimizer lamb --cutmix 1 --label-smoothing 0.1",
    "dynamic_scale": "--optimizer sgd --loss-scale dynamic --clip-value 0.1 --micro-batch 7",
    "many": "--micro-batch 2 --weight-decay 0.01",
    "bf16": "--amp bf16 --optimizer adam",
}
MAPPINGS = {
    "three": ["--num-workers", "3", "--num-servers", "2"],
    "two of two devices": ["--num-workers", "2", "--devices", "cpu:0,1"],
    "five": ["--num-workers", "5"],
}


@pytest.mark.slow  # above are three recipes on two mappings, and tests/cluster/test_exact_sums.py adds what is rare
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [*[*RECIPES][:-1], pytest.param("bf16", marks=needs_bf16)])
def test_recipes_have_the_bits_of_one_process(
    digits: Path, tmp_path: Path, command: Command, name: str
) -> None:
    for mapping, cluster in {"one": [], **MAPPINGS}.items():
        store = ["--kvstore", "dist_sync", "--start-timeout", "60", *cluster] if cluster else []
        done = command("mxtrain.fit", *flags(digits, tmp_path / mapping, *RECIPES[name].split(), *store))
        assert done.returncode == 0, done.stderr
        np.testing.assert_array_equal(losses(tmp_path / mapping), losses(tmp_path / "one"), err_msg=mapping)
        assert_same_checkpoint(tmp_path / mapping, tmp_path / "one")
        _same_evaluations(tmp_path / mapping, tmp_path / "one")


def assert_same_checkpoint(one: Path, other: Path) -> None:
    """Weights, momenta and grids to the bit."""
    for name in ("weights.params", "optimizer.params", "grid.params"):
        assert (newest(one) / name).read_bytes() == (newest(other) / name).read_bytes(), name


def _same_evaluations(some: Path, others: Path) -> None:
    evaluations = records(some, "eval"), records(others, "eval")
    assert len(evaluations[0]) == len(evaluations[1]) > 0
    for one, other in zip(*evaluations):
        assert (one["num_samples"], one["val_accuracy"]) == (other["num_samples"], other["val_accuracy"])
        assert one["val_loss"] == other["val_loss"]


@pytest.mark.timeout(200)
def test_a_net_of_many_buckets_whose_convolutions_store_weights_in_their_own_layout(
    digits: Path, tmp_path: Path, command: Command
) -> None:
    """45 MB of gradients; MXNet's convolutions lay weights out for their kernels, and such arrays have no views."""
    more = ["--model", "resnet18_v1b", "--image-size", "32", "--val-resize", "32", "--micro-batch", "16"]
    more += ["--max-steps", "3", "--augment", "none"]
    for name, cluster in (("one", []), ("two", CLUSTER)):
        done = command("mxtrain.fit", *flags(digits, tmp_path / name, *more, *cluster))
        assert done.returncode == 0, done.stderr
    one, two = ([record["loss"] for record in records(tmp_path / name, "train")] for name in ("one", "two"))
    np.testing.assert_array_equal(two, one)
    assert_same_checkpoint(tmp_path / "two", tmp_path / "one")


@pytest.mark.timeout(200)
def test_a_step_of_many_micro_batches_may_take_longer_than_the_stall_timeout(
    digits: Path, tmp_path: Path, command: Command
) -> None:
    seconds, num_each = 8, 9
    assert num_each * slow_loss.MICRO_BATCH_SECONDS > seconds
    more = ["--loss", "tests.support.slow_loss:loss", "--stall-timeout", str(seconds), "--max-restarts", "0"]
    more += ["--batch-size", str(2 * num_each), "--micro-batch", "1", "--max-steps", "1"]
    done = command("mxtrain.fit", *flags(digits, tmp_path / "run", *CLUSTER, *more))
    assert done.returncode == 0, done.stderr
    assert records(tmp_path / "run", "train")[0]["seconds"] > seconds


@pytest.mark.slow  # tests/engine/test_evaluate.py: progress is reported with every micro-batch
@pytest.mark.timeout(200)
def test_an_evaluation_may_take_longer_than_the_stall_timeout(
    shapes: Path, tmp_path: Path, command: Command
) -> None:
    seconds, num_each = 8, 8
    assert num_each * slow_loss.SAMPLE_SECONDS > seconds
    more = ["--model", "tests.support.slow_loss:Net", "--stall-timeout", str(seconds), "--max-restarts", "0"]
    more += ["--batch-size", "2", "--micro-batch", "1", "--max-steps", "1"]
    done = command("mxtrain.fit", *flags(shapes, tmp_path / "run", *CLUSTER, *more))
    assert done.returncode == 0, done.stderr
    assert records(tmp_path / "run", "eval")[0]["num_samples"] == 2 * num_each


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_twenty_runs_have_the_same_bits(digits: Path, whole: Path, tmp_path: Path, command: Command) -> None:
    """MXNet's own Trainer takes gradients for weights in every other job: what it initialises races the first sums."""
    for number in range(20):
        out = tmp_path / str(number)
        done = command("mxtrain.fit", *flags(digits, out, *CLUSTER, "--num-servers", str(1 + number % 2)))
        assert done.returncode == 0, done.stderr
        assert losses(out).tolist() == losses(whole).tolist(), number
        assert weights(out) == weights(whole), number


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "role",
    [
        "worker-1",
        # The faults kill a server, and ask for the same curve; of all roles, at every moment, where this one is slow.
        *(pytest.param(role, marks=pytest.mark.slow) for role in ("server-0", "scheduler", "worker-0")),
    ],
)
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
def test_ctrl_c_ends_all_workers_after_the_same_step(digits: Path, whole: Path, tmp_path: Path) -> None:
    line = flags(digits, tmp_path, *CLUSTER)
    with warm_started(*line) as run:
        wait_until(lambda: has_step(tmp_path, 3), run)
        os.kill(run.pid, signal.SIGINT)
        _, said = run.communicate(timeout=60)
    assert run.returncode == 130, said
    with warm_started(*line) as run:
        _, said = run.communicate(timeout=120)
    assert run.returncode == 0, said
    assert losses(tmp_path).tolist() == losses(whole).tolist()


@pytest.mark.timeout(200)
def test_an_overflow_on_one_worker_is_skipped_by_all(digits: Path, tmp_path: Path, command: Command) -> None:
    from mxtrain.runtime import mx

    more = ["--batch-size", "16", "--micro-batch", "4", "--max-steps", "16", "--clip-norm", "1"]
    more += ["--loss", "tests.support.overflowing_loss:loss", "--loss-scale", "dynamic", "--lr", "0.01"]
    for name, cluster in (("one", []), ("two", CLUSTER)):
        done = command("mxtrain.fit", *flags(digits, tmp_path / name, *more, *cluster))
        assert done.returncode == 0, done.stderr
    one, two = records(tmp_path / "one", "train"), records(tmp_path / "two", "train")
    for name in ("applied", "loss_scale", "skipped_steps"):
        assert [record[name] for record in one] == [record[name] for record in two], name
    assert one[-1]["loss_scale"] == overflowing_loss.LARGEST_SCALE
    np.testing.assert_allclose([r["loss"] for r in one], [r["loss"] for r in two], rtol=BAR)
    alone, shared = (
        mx.nd.load(str(tmp_path / name / "checkpoints" / "step-00000016" / "weights.params"))
        for name in ("one", "two")
    )
    for name, array in alone.items():
        np.testing.assert_allclose(shared[name].asnumpy(), array.asnumpy(), atol=BAR, err_msg=name)

    run = config.read(tmp_path / "two" / "config.yaml")
    labels = record_sets.open_set(str(digits / "train.rec")).labels()
    hit = [
        {request.step for request in requests if overflowing_loss.RARE_LABEL in labels[request.samples]}
        for requests in (
            list(sample_requests.training_requests(run, labels, 0, 16, worker)) for worker in (0, 1)
        )
    ]
    skipped = {record["step"] - 1 for record in two if not record["applied"]}
    assert skipped & (hit[0] - hit[1]) and skipped & (hit[1] - hit[0]), "each worker alone made all skip"
