"""A task of the user's own, of sequences that vary in length: its numbers, and weights of 0, whoever computes them.

What it is promised as every other task is in `test_runs.py` and `test_workers.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mxtrain.checkpoint import directory
from mxtrain.checkpoint.directory import Checkpoint
from mxtrain.data import fields
from mxtrain.data.loading import order
from mxtrain.data.records.record_file import open_records
from mxtrain.runtime import mx
from mxtrain.train.net import build_net
from tests.support.commands import Command
from tests.support.runs import assert_same_end, newest, records, scores_of
from tests.support.user_code import majority, majority_data
from tests.tasks.given import NUM_TRAIN, NUM_VAL

FLAGS = (
    "--task tests.support.user_code.majority:Majority --optimizer adam --lr 0.02 --weight-decay 0 --threads 1 "
    "--log none"
)
CLUSTER = "--kvstore dist_sync --start-timeout 60 --num-workers"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("majority")
    majority_data.write(folder / "train.rec", 480, seed=0)
    majority_data.write(folder / "few.rec", 100, seed=1, share_labelled=0.3)
    majority_data.write(folder / "val.rec", 160, seed=2, share_labelled=0.8)
    return folder


def fit(command: Command, data: Path, out: Path, flags: str, train: str = "train.rec") -> str:
    sets = ["--train", data / train, "--val", data / "val.rec", "--out", out]
    done = command("mxtrain.fit", *sets, *FLAGS.split(), *flags.split())
    assert done.returncode == 0, done.stderr
    return done.stderr


LEARN = "--batch-size 16 --micro-batch 8 --epochs 4"


@pytest.fixture(scope="module")
def learnt(data: Path, command: Command) -> Path:
    fit(command, data, data / "learnt", LEARN)
    return data / "learnt"


def test_it_is_learnt_and_judged(learnt: Path, command: Command) -> None:
    *_, last = [each for each in records(learnt) if each["kind"] == "eval"]
    assert last["val_auc"] > 0.98 and last["num_samples"] == 160
    trained = [each for each in records(learnt) if each["kind"] == "train"]
    assert trained[-1]["accuracy"] > 0.9 and trained[0]["sequences_per_second"] > 0
    state = json.loads((newest(learnt) / "state.json").read_text())
    assert state["description"] == {"words": majority.WORDS} and state["is_lower_better"]
    scores = [each["val_loss"] for each in records(learnt) if each["kind"] == "eval"]
    assert state["best"][0] == min(scores)
    again = json.loads(
        command("mxtrain.evaluate", "--run", learnt, "--checkpoint", "latest", "--json").stdout
    )
    assert scores_of(again) == scores_of(last)


def test_its_loss_is_the_mean_over_words(data: Path, learnt: Path) -> None:
    """Computed one sample after the other, none of them padded."""
    path = newest(learnt)
    with build_net.compiling("off"):
        net = build_net.load_trained(Checkpoint(path, directory.read_state(path)), [mx.cpu()])
    net.hybridize(active=False)
    samples, total, num_words = open_records(data / "val.rec"), 0.0, 0
    for record in map(samples.read, range(len(samples))):
        if record.label >= 0:
            words = mx.nd.array(np.frombuffer(record.payload, np.uint8)[np.newaxis])
            scores = net(words, mx.nd.ones_like(words)).log_softmax().asnumpy()[0]
            total -= scores[int(record.label)] * words.size
            num_words += words.size
    assert records(learnt)[-1]["val_loss"] == pytest.approx(total / num_words, rel=1e-5)


def test_micro_batches_have_several_lengths(tmp_path: Path) -> None:
    """Or the tests of all tasks would show less than they say."""
    majority_data.write_sets(tmp_path, NUM_TRAIN, NUM_VAL)
    samples, field = open_records(tmp_path / "train.rec"), majority.Majority.fields[0]
    lengths = np.array([len(samples.read(each).payload) for each in order.epoch_order(NUM_TRAIN, 0, 0)])
    found = [fields.rounded_length(field, int(longest)) for longest in lengths.reshape(-1, 4).max(axis=1)]
    assert min(found.count(length) for length in (8, 16, 24)) >= 2


NOTHING = "--batch-size 4 --micro-batch 1 --epochs 1 --ema 0.9"


@pytest.mark.slow  # tests/engine/data/test_sample_weights.py has such weights
@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    "mapping",
    [
        pytest.param("--devices cpu:0,1", marks=pytest.mark.slow),
        f"{CLUSTER} 2",
        pytest.param(f"{CLUSTER} 4", marks=pytest.mark.slow),
    ],  # two workers hold it in small
)
def test_a_weight_of_nothing_moves_nothing(
    mapping: str, data: Path, tmp_path: Path, command: Command
) -> None:
    """In a micro-batch, on a worker, in a whole step."""
    said = fit(command, data, tmp_path / "alone", NOTHING, "few.rec")
    fit(command, data, tmp_path / "mapped", f"{NOTHING} {mapping}", "few.rec")
    assert_same_end(tmp_path / "mapped", tmp_path / "alone")
    labels = open_records(data / "few.rec").labels()[order.epoch_order(100, 0, 0)].reshape(-1, 4) >= 0
    is_empty = ~labels.any(axis=1)
    assert is_empty.any() and (labels.any(axis=1) & ~labels.all(axis=1)).any()
    trained = [each for each in records(tmp_path / "alone") if each["kind"] == "train"]
    assert [each["loss"] is None for each in trained] == is_empty.tolist()
    assert trained[-1]["skipped_steps"] == is_empty.sum()
    for step in 1 + np.flatnonzero(is_empty):
        assert f"step {step} skipped: none of its samples counts" in said
