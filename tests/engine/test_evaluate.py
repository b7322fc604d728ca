"""An evaluation sees every sample once, in micro-batches of training's size, each of which is progress."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxtrain import config
from mxtrain.cluster.worker_group import SingleWorker
from mxtrain.core.errors import UsageError
from mxtrain.data.user_datasets import UserDataset
from mxtrain.models import losses
from mxtrain.runtime import mx
from mxtrain.tasks.classes import ClassificationForward
from mxtrain.tasks.classification import Classification
from mxtrain.train import build_net
from mxtrain.train.evaluate import evaluate
from tests.support import user_data, user_net

NUM_SAMPLES, STEP = 32, 7
FLAGS = "--image-size 16 --batch-size 48"


class Listening(SingleWorker):
    """Notes every sign of progress."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []

    def report_progress(self, phase: str | None = None, step: int | None = None) -> None:
        self.told.append(self.told[-1] if phase is None or step is None else (phase, step))


class Seeing(mx.gluon.Block):  # type: ignore[misc]
    """Notes how many pictures come at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.sizes = user_net.plain(2), []

    def forward(self, pictures: Any) -> Any:
        self.sizes.append(len(pictures))
        return self.body(pictures)


def evaluated(
    flags: str, loss: Any = losses.cross_entropy, group: Listening | None = None
) -> tuple[dict[str, Any], list[int], list[tuple[str, int]]]:
    """What is found, how many pictures the net saw at a time, and what was told of it."""
    run = config.parse([*FLAGS.split(), *flags.split()])
    contexts = build_net.contexts(run.layout.devices)
    mx.random.seed(0)
    net, group = Seeing(), group or Listening()
    net.initialize(ctx=contexts)
    net(mx.nd.zeros((1, 3, 16, 16), ctx=contexts[0]))
    net.sizes.clear()
    records = UserDataset("own", user_data.dataset(NUM_SAMPLES))
    forward, task = ClassificationForward(loss), Classification.numbered(run, 2)
    found = evaluate(run, task, forward, net, records, contexts, group=group, step=STEP)
    assert found is not None
    return found, net.sizes, group.told


@pytest.mark.parametrize(
    ("flags", "sizes"),
    [
        ("--micro-batch 1", [1] * 32),
        ("--micro-batch 5 --devices cpu:0,1,2", [5] * 6 + [2]),
        ("", [24, 8]),
        ("--batch-size 256 --accumulate 4", [32]),
    ],
)
def test_micro_batches_are_those_of_training(flags: str, sizes: list[int]) -> None:
    _, seen, told = evaluated(flags)
    assert seen == sizes
    assert len(told) >= len(sizes) and set(told) == {("evaluation", STEP)}


def test_devices_and_micro_batches_do_not_change_scores() -> None:
    one, _, _ = evaluated("--micro-batch 5")
    assert evaluated("--micro-batch 5 --devices cpu:0,1,2")[0] == one
    other, _, _ = evaluated("--micro-batch 32")
    assert other["val_accuracy"] == one["val_accuracy"] and other["num_samples"] == NUM_SAMPLES
    np.testing.assert_allclose(other["val_loss"], one["val_loss"], rtol=1e-6)


class WorkerInTurn(Listening):
    """One of several workers that compute one after the other; the last one has the sum."""

    def __init__(self, rank: int, world_size: int, before: Any):
        super().__init__()
        self.rank, self.world_size, self.total = rank, world_size, before  # type: ignore[misc]

    def sum(self, values: Any) -> Any:
        self.total = values + self.total
        return self.total


@pytest.mark.parametrize("world_size", [2, 3, 8])
def test_workers_have_the_scores_of_one_to_the_bit(world_size: int) -> None:
    one, _, _ = evaluated("--micro-batch 5")
    before: Any = 0.0
    for rank in range(world_size):
        group = WorkerInTurn(rank, world_size, before)
        found, _, _ = evaluated("--micro-batch 5", group=group)
        before = group.total
    assert found == one


def test_the_loss_is_the_mean_over_samples() -> None:
    loss = losses.build("focal:gamma=2", 0.0, 2)
    heard: list[Any] = []

    def listening(output: Any, label: Any) -> Any:
        heard.append(loss(output, label).asnumpy())
        return mx.nd.array(heard[-1])

    found, _, _ = evaluated("--micro-batch 5", listening)
    assert found["val_loss"] == pytest.approx(np.concatenate(heard).mean(), rel=1e-6)


def test_a_number_called_as_one_of_the_tasks_is_refused() -> None:
    """It might be the score."""
    with pytest.raises(UsageError, match=r"--metric: another number .* is called accuracy already"):
        evaluated("--metric tests.support.user_metrics:accuracy")
