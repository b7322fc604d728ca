"""A run whose rows are with servers: one curve, one checkpoint, whoever dies and however many they are."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from examples import recommender_data
from tests.support.commands import Command
from tests.support.process_tree import roles
from tests.support.runs import (
    assert_same_end,
    has_step,
    newest,
    records,
    rows_of,
    scores_of,
    wait_until,
    warm_started,
)

FLAGS = [
    *("--task", "examples.recommender:Liking", "--optimizer", "adam", "--lr", "0.02", "--weight-decay", "0"),
    *("--batch-size", "40", "--micro-batch", "10", "--epochs", "1", "--clip-norm", "0.5", "--threads", "1"),
    *("--checkpoint-steps", "5", "--lr-scale", "rows=0.5"),
    *("--metric", "log_loss,calibration,ndcg:k=3,recall_at:k=3"),
]
SERVERS = ["--kvstore", "dist_sync", "--update", "servers", "--start-timeout", "60"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("likes")
    recommender_data.write(folder, num_train=1000, num_val=200)
    return ["--train", str(folder / "train.rec"), "--val", str(folder / "val.rec")]


@pytest.fixture(scope="module")
def alone(data: list[str], tmp_path_factory: pytest.TempPathFactory, command: Command) -> Path:
    out = tmp_path_factory.mktemp("alone") / "run"
    done = command("mxtrain.fit", *FLAGS, *data, "--out", out)
    assert done.returncode == 0, done.stderr
    return out


def assert_same(out: Path, alone: Path) -> None:
    assert_same_end(out, alone)
    rows = rows_of(out)
    assert rows == rows_of(alone) and len(rows) > 1000


@pytest.mark.timeout(200)
def test_a_killed_server_loses_no_row(data: list[str], alone: Path, tmp_path: Path, command: Command) -> None:
    out = tmp_path / "run"
    flags = [*FLAGS, *data, *SERVERS, "--num-workers", "2", "--num-servers", "2"]
    with warm_started(*flags, "--out", str(out)) as run:
        wait_until(lambda: has_step(out, 12), run)
        os.kill(roles(run.pid)["server-1"], signal.SIGKILL)
        _, said = run.communicate(timeout=150)
    assert run.returncode == 0 and "server-1 was killed by SIGKILL" in said, said
    assert_same(out, alone)
    evaluated = command("mxtrain.evaluate", out, "--checkpoint", "latest", "--json")
    assert evaluated.returncode == 0, evaluated.stderr
    assert scores_of(json.loads(evaluated.stdout)) == scores_of(records(alone, "eval")[-1])


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    "mapping",
    [
        ["--devices", "cpu:0,1"],
        [*SERVERS, "--num-workers", "1", "--num-servers", "1"],
        [*SERVERS, "--num-workers", "3", "--num-servers", "1", "--devices", "cpu:0,1"],
        [*SERVERS, "--num-workers", "4", "--num-servers", "3"],
    ],
)
def test_one_curve_for_all_mappings(
    data: list[str], alone: Path, tmp_path: Path, command: Command, mapping: list[str]
) -> None:
    done = command("mxtrain.fit", *FLAGS, *data, *mapping, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert_same(tmp_path / "run", alone)


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_rows_of_another_run_rest_where_they_are_frozen(
    data: list[str], alone: Path, tmp_path: Path, command: Command
) -> None:
    """Weights move on beside them, to the same bits with servers and without."""
    servers = [*SERVERS, "--num-workers", "2", "--num-servers", "2"]
    more = ["--pretrained", str(newest(alone)), "--freeze", "rows", "--seed", "5", "--max-steps", "12"]
    for out, mapping in ((tmp_path / "one", []), (tmp_path / "two", servers)):
        done = command("mxtrain.fit", *FLAGS, *data, *more, *mapping, "--out", out)
        assert done.returncode == 0, done.stderr
        assert rows_of(out) == rows_of(alone)
    assert_same_end(tmp_path / "two", tmp_path / "one")
    weights = [(newest(out) / "weights.params").read_bytes() for out in (alone, tmp_path / "one")]
    assert weights[0] != weights[1]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_run_goes_on_with_other_servers_and_without_any(
    data: list[str], alone: Path, tmp_path: Path, command: Command
) -> None:
    out = tmp_path / "run"
    mappings = [
        [*SERVERS, "--num-workers", "2", "--num-servers", "1"],
        ["--devices", "cpu:0,1"],
        [*SERVERS, "--num-workers", "2", "--num-servers", "3"],
    ]
    for step, mapping in zip((6, 12, 18), mappings):
        with warm_started(*FLAGS, *data, *mapping, "--out", str(out)) as run:
            wait_until(lambda step=step: has_step(out, step), run)
            run.send_signal(signal.SIGTERM)
            run.communicate(timeout=100)
    done = command(
        "mxtrain.fit", *FLAGS, *data, *SERVERS, "--num-workers", "3", "--num-servers", "2", "--out", out
    )
    assert done.returncode == 0, done.stderr
    rows = rows_of(out)
    assert rows == rows_of(alone)
    assert (newest(out) / "weights.params").read_bytes() == (newest(alone) / "weights.params").read_bytes()


@pytest.mark.timeout(100)
def test_a_file_of_rows_that_is_gone_is_named(
    data: list[str], alone: Path, tmp_path: Path, command: Command
) -> None:
    out = tmp_path / "run"
    shutil.copytree(alone, out)
    for path in newest(out).glob("rows.*"):
        path.unlink()
    done = command("mxtrain.evaluate", newest(out))
    assert done.returncode == 3 and "rows.0-of-1.rows" in done.stderr, done.stderr
