"""A head in chunks over workers and servers that lend them: the bits of one process, and those after a fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import strike
from tests.faults.case import Case
from tests.faults.job import LENGTH, result
from tests.faults.samples import data_flags
from tests.support.commands import Command
from tests.support.runs import assert_same_checkpoint, records

FLAGS = (
    "--model benchmarks.same_curve.nets:with_both --image-size 16 --val-resize 16 --augment none --lr 0.01"
)
FLAGS += " --optimizer adamw --clip-norm 1 --head-chunk 4 --threads 1 --log none --sample-steps 0"
LOSSES = {
    "plain": ["cross_entropy"],
    "margin": ["arcface:scale=8,margin=0.3"],
    "sample": ["cross_entropy", "--head-classes", "6"],
}
SERVERS, PEERS = "--kvstore dist_sync --update servers", "--kvstore allreduce"
slow = pytest.mark.slow


def line_of(digits: Path, loss: str) -> list[str]:
    data = ["--train", str(digits / "train.rec"), "--val", str(digits / "val.rec")]
    return [*data, *FLAGS.split(), "--loss", *LOSSES[loss]]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("loss", "workers", "servers", "store"),
    [
        ("plain", 2, 2, SERVERS),
        pytest.param("plain", 1, 1, SERVERS, marks=slow),
        pytest.param("plain", 3, 1, SERVERS, marks=slow),
        pytest.param("plain", 3, 0, PEERS, marks=slow),
        pytest.param("plain", 2, 1, "--kvstore dist_sync", marks=slow),
        pytest.param("margin", 1, 2, SERVERS, marks=slow),
        pytest.param("margin", 3, 2, SERVERS, marks=slow),
        pytest.param("margin", 2, 0, PEERS, marks=slow),
        pytest.param("sample", 3, 2, SERVERS, marks=slow),
    ],
)
def test_workers_and_servers_are_one_process_to_the_bit(
    loss: str, workers: int, servers: int, store: str, digits: Path, tmp_path: Path, command: Command
) -> None:
    """Each micro-batch of 5 of the step's 8 is somebody's; it goes on in one process, from the job's checkpoint."""
    line = [*line_of(digits, loss), "--batch-size", "40", "--micro-batch", "5"]
    one, job = tmp_path / "one", tmp_path / "job"
    cluster = [*store.split(), "--num-workers", str(workers), "--num-servers", str(max(1, servers))]
    for flags in (
        ["--out", one, "--max-steps", "9"],
        ["--out", job, "--max-steps", "6", *cluster, "--start-timeout", "60"],
    ):
        done = command("mxtrain.fit", *line, *flags, "--schedule", "constant")
        assert done.returncode == 0, done.stderr
    done = command("mxtrain.fit", *line, "--out", job, "--max-steps", "9", "--schedule", "constant")
    assert done.returncode == 0, done.stderr
    assert_same_checkpoint(job, one)
    losses = [[record["loss"] for record in records(each, "train")] for each in (job, one)]
    assert losses[0] == losses[1] and len(losses[0]) == 9


@slow  # tests/faults has the faults of all other weights that servers own
@pytest.mark.timeout(400)
def test_a_job_whose_server_is_killed_recovers(tmp_path: Path, command: Command) -> None:
    """Of three classes, each in a chunk of its own, on two servers."""
    line = [*data_flags(tmp_path / "data"), *FLAGS.split(), "--head-chunk", "1", *LENGTH]
    done = command("mxtrain.fit", *line, "--out", tmp_path / "alone")
    assert done.returncode == 0, done.stderr
    case = Case("server-1", "SIGKILL", "mid-epoch", num_workers=2, num_servers=2, kind="owners")
    (outcome,) = strike.strike([case], tmp_path, line, result(tmp_path / "alone"))
    assert outcome.kind == strike.RECOVERED, outcome.output
