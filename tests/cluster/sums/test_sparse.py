"""A row-sparse table on the servers: the curve of a dense one, with only rows sent."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.commands import Command
from tests.support.jobs.cluster_jobs import ended, job
from tests.support.nets import table_nets
from tests.support.process_tree import roles
from tests.support.runs import assert_same_end, has_step, records, wait_until, warm_started

NUM_STEPS = 20
FLAGS = [
    *("--image-size", "16", "--val-resize", "16", "--augment", "pad_crop:pad=2", "--batch-size", "32"),
    *("--micro-batch", "8", "--epochs", "1", "--max-steps", str(NUM_STEPS), "--lr", "0.05", "--threads", "1"),
]
PLAIN = ["--optimizer", "sgd:momentum=0", "--weight-decay", "0"]
SYNC = ["--kvstore", "dist_sync", "--num-workers", "2", "--num-servers", "2", "--start-timeout", "60"]
ASYNC = ["--kvstore", "dist_async", *SYNC[2:]]
BATCH_OF_TWO = ["--batch-size", "16"]  # micro-batches
# One of them computes nothing, and has to take part in the same sums as the others.
IDLING = [*SYNC, "--num-workers", "3", "--max-restarts", "0"]
BAR = 1e-5


def line(digits: Path, out: Path, net: str, *more: str) -> list[str]:
    data = ["--train", str(digits / "train.rec"), "--val", str(digits / "val.rec")]
    return [*data, "--out", str(out), "--model", f"tests.support.nets.table_nets:{net}", *FLAGS, *more]


def losses(out: Path) -> np.ndarray[Any, Any]:
    trained = records(out, "train")
    assert [record["step"] for record in trained] == list(range(1, NUM_STEPS + 1))
    return np.array([record["loss"] for record in trained])


def compare(one: Path, two: Path) -> None:
    """Compare two runs' curves, evaluations and last checkpoints' weights."""
    from mxtrain.runtime import mx

    np.testing.assert_allclose(losses(two), losses(one), rtol=BAR)
    assert records(two, "eval")[-1]["val_loss"] == pytest.approx(
        records(one, "eval")[-1]["val_loss"], rel=BAR
    )
    first, second = (
        mx.nd.load(str(out / "checkpoints" / f"step-{NUM_STEPS:08d}" / "weights.params"))
        for out in (one, two)
    )
    assert (
        first["table.weight"].shape == (table_nets.NUM_ROWS, table_nets.WIDTH) == second["table.weight"].shape
    )
    for name, array in first.items():
        np.testing.assert_allclose(second[name].asnumpy(), array.asnumpy(), atol=BAR)


@pytest.mark.slow  # in small: test_only_rows_are_sent below
@pytest.mark.timeout(300)
def test_two_workers_make_the_curve_of_a_dense_table_also_after_a_kill(
    digits: Path, tmp_path: Path, command: Command
) -> None:
    done = command("mxtrain.fit", *line(digits, tmp_path / "dense", "dense", *PLAIN))
    assert done.returncode == 0, done.stderr
    killed = tmp_path / "killed"
    with warm_started(*line(digits, killed, "sparse", *PLAIN, *SYNC, "--checkpoint-steps", "5")) as run:
        wait_until(lambda: has_step(killed, 13), run)
        os.kill(roles(run.pid)["server-0"], signal.SIGKILL)
        _, said = run.communicate(timeout=200)
    assert run.returncode == 0, said
    assert "server-0 was killed by SIGKILL" in said
    compare(tmp_path / "dense", killed)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_momenta_of_rows_are_those_of_one_process_also_after_a_kill(
    digits: Path, tmp_path: Path, command: Command, optimizer: str
) -> None:
    more = ["--optimizer", optimizer, "--lr", "0.01"]
    done = command("mxtrain.fit", *line(digits, tmp_path / "one", "sparse", *more))
    assert done.returncode == 0, done.stderr
    killed = tmp_path / "killed"
    with warm_started(*line(digits, killed, "sparse", *more, *SYNC, "--checkpoint-steps", "5")) as run:
        wait_until(lambda: has_step(killed, 13), run)
        os.kill(roles(run.pid)["worker-1"], signal.SIGKILL)
        _, said = run.communicate(timeout=200)
    assert run.returncode == 0, said
    compare(tmp_path / "one", killed)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_table_learns_over_an_async_store(digits: Path, tmp_path: Path, command: Command) -> None:
    more = [*PLAIN, *ASYNC, "--max-steps", "0", "--epochs", "3", "--lr", "0.2"]
    done = command("mxtrain.fit", *line(digits, tmp_path, "sparse", *more))
    assert done.returncode == 0, done.stderr
    steps = records(tmp_path, "train")
    assert all(record["staleness"] >= 0 for record in steps)
    found = [record["loss"] for record in steps]
    assert sum(found[-10:]) < sum(found[:10]) * 0.75


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("net", "more", "code", "reason"),
    [
        ("unbounded", [], 3, "there is no row 20"),
        ("gluons_own", [], 2, "has to be a mxtrain.models.SparseEmbedding"),
        ("sparse", ["--clip-norm", "1"], 2, "--clip-norm 1 with --kvstore dist_sync"),
        (
            "sparse",
            ["--epochs", "5", "--max-steps", "0", "--average", "2"],
            2,
            "--average 2 with --kvstore dist_sync",
        ),
    ],
)
def test_an_unsupported_use_ends_the_job_with_its_reason(
    digits: Path, tmp_path: Path, command: Command, net: str, more: list[str], code: int, reason: str
) -> None:
    done = command("mxtrain.fit", *line(digits, tmp_path, net, *PLAIN, *SYNC, *more))
    assert done.returncode == code and reason in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.parametrize("flags", [PLAIN, ["--optimizer", "adamw", "--clip-norm", "1"]])
def test_a_frozen_table_is_a_weight_like_any_other(
    digits: Path, tmp_path: Path, command: Command, flags: list[str]
) -> None:
    """It is no reason for servers to update, so sums are exact, and flags that tables refuse are taken."""
    more = [*flags, "--freeze", "table.*", "--max-steps", "6"]
    for out, store in (("one", []), ("three", IDLING)):
        done = command("mxtrain.fit", *line(digits, tmp_path / out, "sparse", *more, *BATCH_OF_TWO, *store))
        assert done.returncode == 0, done.stderr
    assert_same_end(tmp_path / "three", tmp_path / "one")


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_a_frozen_table_rests_beside_one_that_servers_update(
    digits: Path, tmp_path: Path, command: Command
) -> None:
    more = [*PLAIN, "--freeze", "fixed.*"]
    for out, store in (("one", []), ("three", IDLING)):
        done = command("mxtrain.fit", *line(digits, tmp_path / out, "two", *more, *BATCH_OF_TWO, *store))
        assert done.returncode == 0, done.stderr
    compare(tmp_path / "one", tmp_path / "three")


def push_rows(group: Any, folder: Path) -> None:
    """Three steps with 10 rows of a table of 20000, and what they have moved over the network."""
    from benchmarks.comm.wire import num_bytes
    from mxtrain.kvstore.server_client import ServerClient
    from mxtrain.models import SparseEmbedding
    from mxtrain.runtime import mx

    layer = SparseEmbedding(20_000, 16, init=mx.init.One())
    layer.initialize()
    servers = ServerClient([layer.weight], mx.optimizer.SGD(learning_rate=1.0), "dist_sync", group)
    ids = mx.nd.arange(10) + 5 * group.rank  # half of them are the other worker's too
    before = sum(num_bytes())
    for _ in range(3):
        with mx.autograd.record():
            output = layer(ids)
        output.backward()
        servers.push_pull(1.0, 0.5)
    moved = sum(num_bytes()) - before
    servers.save()
    found = {"moved": moved, "rows": layer.weight.data()[:20, 3].asnumpy().tolist()}
    (folder / f"{group.rank}.json").write_text(json.dumps(found))


def test_only_rows_are_sent_and_those_of_both_workers_add_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DMLC_LOCAL", "0")  # of TCP alone the kernel counts bytes
    with job(tmp_path, push_rows, num_workers=2, num_servers=2) as processes:
        codes = ended(processes)
    assert set(codes.values()) == {0}, (tmp_path / "worker-0.log").read_text()
    expected = np.ones(20) - 1.5 * np.array([*[1] * 5, *[2] * 5, *[1] * 5, *[0] * 5])
    for number in range(2):
        found = json.loads((tmp_path / f"{number}.json").read_text())
        np.testing.assert_allclose(found["rows"], expected)
        assert 3 * 2 * 10 * 16 * 4 <= found["moved"] < 20_000 * 16 * 4 / 10, "rows, and no tenth of the table"
