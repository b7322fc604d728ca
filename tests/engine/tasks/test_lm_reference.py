"""A run of --task lm is what a plain Gluon loop makes of the same weights and windows."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mxtrain import config
from mxtrain.checkpoint import directory
from mxtrain.data.loading import order
from mxtrain.data.records.record_file import open_records
from mxtrain.data.text.tokens import format_of
from mxtrain.data.text.windows import Windows
from mxtrain.models.nets.gpt import Gpt
from mxtrain.runtime import mx
from mxtrain.tasks import registry as tasks
from mxtrain.train.net import build_net
from tests.support.commands import Command
from tests.support.runs import records
from tests.tasks.data import steps

BATCH, WINDOW, STEPS, RATE = 16, 12, 24, 0.005


def test_it_learns_what_a_plain_loop_learns(tmp_path: Path, command: Command) -> None:
    """Windows of 12 tokens over documents of 16, so that most hold parts of two."""
    steps.write(tmp_path, 201, 33)
    flags = f"--model gpt:layers=2,heads=2,width=32 --window {WINDOW} --optimizer adam --lr {RATE} --weight-decay 0"
    length = (
        f"--batch-size {BATCH} --micro-batch 8 --schedule constant --max-steps {STEPS} --threads 1 --log none"
    )
    sets = ["--train", tmp_path / "train.rec", "--val", tmp_path / "val.rec", "--out", tmp_path / "run"]
    done = command("mxtrain.fit", "--task", "lm", *sets, *flags.split(), *length.split())
    assert done.returncode == 0, done.stderr
    trained = [each for each in records(tmp_path / "run") if each["kind"] == "train"]
    judged = [each for each in records(tmp_path / "run") if each["kind"] == "eval"][-1]

    found = directory.newest(tmp_path / "run" / "checkpoints")
    run = config.from_flat(found[1]["config"])
    task = tasks.of_description(run, found[1]["description"])
    first = build_net.build_to_train(task, [mx.cpu()]).net
    net = Gpt(257, WINDOW, 256, layers=2, heads=2, width=32)
    net.initialize()
    for own, theirs in zip(net.collect_params().values(), first.collect_params().values()):
        own.set_data(theirs.data())
    trainer = mx.gluon.Trainer(net.collect_params(), "adam", {"learning_rate": RATE, "wd": 0.0})
    losses = [_step(net, trainer, batch) for batch in _batches(tmp_path / "train.rec")]
    np.testing.assert_allclose([each["loss"] for each in trained], losses, rtol=2e-4)
    assert losses[-1] < 0.7 * losses[0]
    all_of_val = _rows(tmp_path / "val.rec")
    val_loss = _losses(net, all_of_val).asscalar() / len(all_of_val)
    np.testing.assert_allclose(judged["val_loss"], val_loss, rtol=1e-3)


def _rows(path: Path) -> list:
    """Return all windows of a file, whose last one is whole too."""
    dataset = open_records(path)
    windows = Windows(dataset, format_of(dataset), WINDOW)
    rows = [windows.read(position).payload for position in range(len(windows))]
    assert {len(row) for row in rows} == {WINDOW + 1}
    return rows


def _batches(path: Path):
    rows = _rows(path)
    for step in range(STEPS):
        epoch, inside = divmod(step, order.steps_per_epoch(len(rows), BATCH))
        chosen = order.step_samples(order.epoch_order(len(rows), 0, epoch), inside, BATCH)
        yield [rows[position] for position in chosen]


def _losses(net: Gpt, batch: list):
    rows = np.array(batch, np.float32)
    tokens, targets = mx.nd.array(rows[:, :-1]), mx.nd.array(rows[:, 1:])
    return mx.gluon.loss.SoftmaxCrossEntropyLoss()(net(tokens), targets).sum()


def _step(net: Gpt, trainer, batch: list) -> float:
    with mx.autograd.record():
        loss = _losses(net, batch)
    loss.backward()
    trainer.step(len(batch))
    return float(loss.asscalar() / len(batch))
