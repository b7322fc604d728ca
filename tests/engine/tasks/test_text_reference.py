"""Runs of both tasks of text are what a plain Gluon loop makes of the same weights and texts, one at a time.

The loop's LSTM is MXNet's of two directions, which needs no mask where nothing is padded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain import config
from mxtrain.checkpoint import directory
from mxtrain.data.loading import order
from mxtrain.data.records.record_file import open_records
from mxtrain.runtime import mx
from mxtrain.tasks import registry as tasks
from mxtrain.train.net import build_net
from tests.support.commands import Command
from tests.support.runs import records
from tests.tasks.data import texts

BATCH, STEPS, RATE, WIDTH = 16, 24, 0.01, 12
FLAGS = f"--model bilstm:width={WIDTH},hidden={WIDTH},dropout=0 --window 32 --optimizer adam --lr {RATE}"


class Plain(mx.gluon.Block):
    """Scores for the tokens of one text, or for the whole of it."""

    def __init__(self, num_classes: int, of_tokens: bool):
        super().__init__()
        self.tokens = mx.gluon.nn.Embedding(258, WIDTH)
        self.lstm = mx.gluon.rnn.LSTM(WIDTH, input_size=WIDTH, bidirectional=True)
        self.scores = mx.gluon.nn.Dense(num_classes, in_units=(2 if of_tokens else 4) * WIDTH)
        self._of_tokens = of_tokens

    def forward(self, ids: Any) -> Any:
        found = self.lstm(self.tokens(ids).expand_dims(1))[:, 0]
        if not self._of_tokens:
            found = mx.nd.concat(found.mean(axis=0), found.max(axis=0), dim=0).expand_dims(0)
        return self.scores(found)


def like(net: Any, num_classes: int, of_tokens: bool) -> Plain:
    """Return a plain net with the weights of ours."""
    plain = Plain(num_classes, of_tokens)
    plain.initialize()
    plain.tokens.weight.set_data(net.body.tokens.weight.data())
    for mine, letter in ((net.body.onwards[0], "l0"), (net.body.backwards[0], "r0")):
        for part in ("i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias"):
            getattr(plain.lstm, f"{letter}_{part}").set_data(getattr(mine, f"l0_{part}").data())
    plain.scores.weight.set_data(net.scores.weight.data())
    plain.scores.bias.set_data(net.scores.bias.data())
    return plain


def losses_of(net: Plain, record: Any, of_tokens: bool) -> tuple[Any, int]:
    """Return the summed loss of a text, and how many labels it has."""
    scores = net(mx.nd.array(np.frombuffer(record.payload, "<u2").astype(np.float32)))
    label = np.atleast_1d(record.label) if of_tokens else np.array([record.label])
    places = np.flatnonzero(label >= 0)
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()(
        scores.take(mx.nd.array(places)), mx.nd.array(label[places])
    )
    return loss.sum(), len(places)


@pytest.mark.slow  # test_text_nets.py holds the net, tests/unit/tasks/metrics/test_text_metrics.py the metrics
@pytest.mark.parametrize("task", ["sequence_classification", "token_classification"])
def test_it_learns_what_a_plain_loop_learns(task: str, tmp_path: Path, command: Command) -> None:
    of_tokens = task == "token_classification"
    (texts.write_entities if of_tokens else texts.write_orders)(tmp_path, 200, 40)
    length = (
        f"--batch-size {BATCH} --micro-batch 4 --schedule constant --max-steps {STEPS} --threads 1 --log none"
    )
    sets = ["--train", tmp_path / "train.rec", "--val", tmp_path / "val.rec", "--out", tmp_path / "run"]
    done = command(
        "mxtrain.fit", "--task", task, *sets, *FLAGS.split(), *length.split(), "--weight-decay", "0"
    )
    assert done.returncode == 0, done.stderr
    trained = [each["loss"] for each in records(tmp_path / "run") if each["kind"] == "train"]
    *_, judged = [each for each in records(tmp_path / "run") if each["kind"] == "eval"]

    found = directory.newest(tmp_path / "run" / "checkpoints")
    run = config.from_flat(found[1]["config"])
    own_task = tasks.of_description(run, found[1]["description"])
    net = like(build_net.build_to_train(own_task, [mx.cpu()]).net, len(own_task.class_names), of_tokens)
    trainer = mx.gluon.Trainer(net.collect_params(), "adam", {"learning_rate": RATE, "wd": 0.0})
    train, losses = open_records(tmp_path / "train.rec"), []
    for step in range(STEPS):
        epoch, inside = divmod(step, order.steps_per_epoch(len(train), BATCH))
        chosen = order.step_samples(order.epoch_order(len(train), 0, epoch), inside, BATCH)
        with mx.autograd.record():
            parts = [losses_of(net, train.read(int(position)), of_tokens) for position in chosen]
            loss = mx.nd.add_n(*(part for part, _ in parts)) / sum(count for _, count in parts)
        loss.backward()
        trainer.step(1)
        losses.append(float(loss.asscalar()))
    np.testing.assert_allclose(trained, losses, rtol=1e-3)
    val = open_records(tmp_path / "val.rec")
    parts = [losses_of(net, val.read(position), of_tokens) for position in range(len(val))]
    expected = sum(float(part.asscalar()) for part, _ in parts) / sum(count for _, count in parts)
    assert judged["val_loss"] == pytest.approx(expected, rel=1e-3)
