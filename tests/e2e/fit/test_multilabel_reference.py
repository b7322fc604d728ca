"""Several labels a picture are learnt as by plain Gluon: from the same weights, in the same order, the same curve."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.data.augment.transforms import eval_transform
from mxtrain.data.loading import order
from mxtrain.data.records.record_file import open_records
from mxtrain.runtime import mx
from tests.support.commands import Command
from tests.support.data import several_shapes
from tests.support.runs import records

BATCH, EPOCHS, RATE = 32, 4, 0.004
WEIGHTS = [3.0, 1.0, 1.5]
SIZE = f"{several_shapes.HEIGHT}x{several_shapes.WIDTH}"


def convolutions(num_classes: int) -> Any:
    """A net whose answer to a picture does not depend on the others of its micro-batch."""
    nn = mx.gluon.nn
    net = nn.HybridSequential()
    with net.name_scope():
        for channels in (16, 32, 32):
            net.add(nn.Conv2D(channels, 3, padding=1, activation="relu"))
            net.add(nn.MaxPool2D(2))
        net.add(nn.GlobalMaxPool2D(), nn.Flatten(), nn.Dense(num_classes))
    return net


def arrays_of(path: Path) -> tuple[np.ndarray, np.ndarray]:
    found, transform = open_records(path), eval_transform(SIZE, several_shapes.HEIGHT)
    data = np.zeros((len(found), 3, several_shapes.HEIGHT, several_shapes.WIDTH), np.float32)
    for position, row in enumerate(data):
        transform(found.read(position).payload, None, row)
    return data, found.labels()


def learnt_by_gluon(net: Any, data: np.ndarray, labels: np.ndarray) -> list[float]:
    """Train with Gluon's own loss and Trainer, and return the loss of each step."""
    loss = mx.gluon.loss.SigmoidBinaryCrossEntropyLoss()
    trainer = mx.gluon.Trainer(net.collect_params(), "adam", {"learning_rate": RATE}, kvstore=None)
    weights, losses = mx.nd.array(np.array([WEIGHTS])), []
    for epoch in range(EPOCHS):
        samples = order.epoch_order(len(data), 0, epoch)
        for start in range(0, len(data), BATCH):
            chosen = samples[start : start + BATCH]
            label = mx.nd.array(labels[chosen])
            counts = (label == 0) + (label == 1) * mx.nd.broadcast_like(weights, label)
            with mx.autograd.record():
                # Gluon's is the mean over a sample's labels.
                total = (loss(net(mx.nd.array(data[chosen])), label.relu(), counts) * len(WEIGHTS)).sum()
                mean = total / counts.sum()
            mean.backward()
            trainer.step(1)
            losses.append(float(mean.asscalar()))
    return losses


@pytest.mark.slow  # tests/engine/tasks/test_multilabel.py holds the loss, test_multilabel_metrics.py the metrics
def test_the_curve_is_that_of_plain_gluon(tmp_path: Path, command: Command) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    several_shapes.write_sets(tmp_path, 992, 300)
    mx.random.seed(3)
    net = convolutions(3)
    net.initialize(mx.init.Xavier())
    net(mx.nd.zeros((1, 3, several_shapes.HEIGHT, several_shapes.WIDTH)))
    net.save_parameters(str(tmp_path / "first.params"))
    flags = (
        f"--task multilabel --model {__name__}:convolutions --image-size {SIZE} --val-resize {several_shapes.HEIGHT} "
        f"--augment none --optimizer adam --lr {RATE} --schedule constant --weight-decay 0 --batch-size {BATCH} "
        f"--micro-batch 8 --epochs {EPOCHS} --class-weights {','.join(map(str, WEIGHTS))} --log none"
    )
    sets = ["--train", tmp_path / "train.rec", "--val", tmp_path / "val.rec", "--out", tmp_path / "run"]
    done = command("mxtrain.fit", *sets, *flags.split(), "--pretrained", tmp_path / "first.params")
    assert done.returncode == 0, done.stderr
    ours = [each["loss"] for each in records(tmp_path / "run") if each["kind"] == "train"]
    theirs = learnt_by_gluon(net, *arrays_of(tmp_path / "train.rec"))
    assert len(ours) == len(theirs) == EPOCHS * 31
    np.testing.assert_allclose(ours[:31], theirs[:31], rtol=1e-3)
    assert np.mean(ours[-31:]) == pytest.approx(np.mean(theirs[-31:]), rel=0.2)  # roundings have grown
    data, labels = arrays_of(tmp_path / "val.rec")
    scores = net(mx.nd.array(data)).asnumpy()
    last = records(tmp_path / "run")[-1]
    expected = {
        "val_mean_average_precision": metrics.average_precision_score(labels, scores, average="macro"),
        "val_micro_f1": metrics.f1_score(labels, scores > 0, average="micro"),
        "val_macro_f1": metrics.f1_score(labels, scores > 0, average="macro"),
    }
    assert expected["val_mean_average_precision"] > 0.9
    for name, value in expected.items():
        assert last[name] == pytest.approx(value, abs=0.02), name
