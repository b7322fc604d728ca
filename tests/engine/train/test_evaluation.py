"""An evaluation sees every sample once, in micro-batches of training's size, each of which is progress."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxtrain import config
from mxtrain.cluster.worker_group import SingleWorker
from mxtrain.core.errors import UsageError
from mxtrain.data.user.user_datasets import UserDataset
from mxtrain.models import losses
from mxtrain.runtime import mx
from mxtrain.tasks.classes import ClassificationForward
from mxtrain.tasks.classification import Classification
from mxtrain.tasks.metrics.metric_selection import of_task
from mxtrain.train.evaluation import Evaluation, evaluate
from mxtrain.train.net import build_net
from tests.support.nets import user_net
from tests.support.processes.worker_threads import on_workers
from tests.support.user_code import user_data

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
    flags: str,
    loss: Any = losses.cross_entropy,
    group: SingleWorker | None = None,
    task: type[Classification] = Classification,
    forward: Any = ClassificationForward,
) -> tuple[Evaluation, list[int], list[tuple[str, int]]]:
    """Return what is found, how many pictures the net saw at a time, and what was told of it."""
    run = config.parse([*FLAGS.split(), *flags.split()])
    devices = build_net.devices_of(run.layout.devices)
    mx.random.seed(0)
    net, listening = Seeing(), Listening()
    net.initialize(ctx=devices)
    net(mx.nd.zeros((1, 3, 16, 16), ctx=devices[0]))
    net.sizes.clear()
    records = UserDataset("own", user_data.dataset(NUM_SAMPLES))
    found = evaluate(
        task.numbered(run, 2), forward(loss), net, records, devices, group=group or listening, step=STEP
    )
    assert found is not None
    return found, net.sizes, listening.told


@pytest.mark.parametrize(
    ("flags", "sizes"),
    [
        ("--micro-batch 1", [1] * 32),
        ("--micro-batch 5 --devices cpu:0,1,2", [5] * 6 + [2]),
        ("", [16, 16]),
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
    assert other.scores["val_accuracy"] == one.scores["val_accuracy"]
    assert other.scores["num_samples"] == NUM_SAMPLES
    np.testing.assert_allclose(other.scores["val_loss"], one.scores["val_loss"], rtol=1e-6)


@pytest.mark.parametrize("world_size", [2, 3, 8])
def test_workers_find_what_one_finds_to_the_bit(world_size: int) -> None:
    """Of eight one has no sample."""
    one, _, _ = evaluated("--micro-batch 5")
    assert [record["kind"] for record in one.records] == ["classes", "worst"]
    found = on_workers(world_size, lambda group: evaluated("--micro-batch 5", group=group)[0])
    assert found == [one] * world_size


def test_the_loss_is_the_mean_over_samples() -> None:
    loss = losses.build("focal:gamma=2", 0.0, 2)
    heard: list[Any] = []

    def listening(output: Any, label: Any) -> Any:
        heard.append(loss(output, label).asnumpy())
        return mx.nd.array(heard[-1])

    found, _, _ = evaluated("--micro-batch 5", listening)
    assert found.scores["val_loss"] == pytest.approx(np.concatenate(heard).mean(), rel=1e-6)


def test_a_number_called_as_one_of_the_tasks_is_refused() -> None:
    """It might be the score."""
    with pytest.raises(UsageError, match=r"--metric: another number .* is called accuracy already"):
        evaluated("--metric tests.support.user_code.user_metrics:accuracy")


class Inheriting(Classification):
    """A user's, whose net answers with two arrays, and whose labels are called otherwise."""

    def sample_result(self, output: Any, arrays: Any) -> dict[str, Any]:
        raise KeyError("label")

    def metrics(self) -> Any:
        return ()


def test_a_task_that_inherits_what_does_not_fit_it_is_evaluated_without() -> None:
    class TwoHeads(ClassificationForward):
        def __call__(self, net: Any, arrays: Any) -> Any:
            outcome = super().__call__(net, arrays)
            return outcome._replace(output=[outcome.output, outcome.output])

    found = evaluated(
        "--task tests.engine.train.test_evaluation:Inheriting", task=Inheriting, forward=TwoHeads
    )[0]
    assert found.scores.keys() == {"val_loss", "num_samples"}
    (worst,) = found.records
    assert worst["kind"] == "worst" and worst["samples"][0].keys() == {"sample", "loss"}


class Clicks(Classification):
    """Whether the second class is there, as a label, for candidates of three users."""

    metric_kind = "labels"

    def predictions_and_targets(self, output: Any, arrays: Any) -> tuple[Any, Any]:
        scores = np.sin(1000 * output.asnumpy()[:, 1:])  # as the two classes are told apart by any net
        return scores, arrays["label"].reshape(-1, 1)

    def groups(self, by: str) -> Any:
        def of_brightness(arrays: Any) -> Any:
            brightness = np.abs(arrays["data"]).astype(np.float64).sum(axis=(1, 2, 3))
            return (1 << 62) + np.floor(brightness * 100).astype(np.int64) % (5 if by == "five" else 3)

        return of_brightness


class WithoutUsers(Classification):
    metric_kind = "labels"


class NoClicks(Clicks):
    def predictions_and_targets(self, output: Any, arrays: Any) -> tuple[Any, Any]:
        scores, labels = super().predictions_and_targets(output, arrays)
        return scores, np.zeros_like(labels)


CLICK_METRICS = "auc,log_loss,calibration,ndcg:k=3,recall_at:k=5"


def test_workers_find_the_same_clicks_to_the_bit() -> None:
    flags = f"--micro-batch 5 --metric {CLICK_METRICS}"
    one = evaluated(flags, task=Clicks)[0]
    names = {"val_auc", "val_log_loss", "val_calibration", "val_ndcg_at_3", "val_recall_at_5"}
    assert names < one.scores.keys() and np.isfinite([one.scores[name] for name in names]).all()
    found = on_workers(3, lambda group: evaluated(flags, group=group, task=Clicks)[0])
    assert found == [one] * 3
    other = evaluated(f"{flags.replace('ndcg:', 'ndcg:by=five,')}", task=Clicks)[0]
    changed = {name for name in one.scores if other.scores[name] != one.scores[name]}
    assert changed == {"val_ndcg_at_3"}


def test_a_number_without_a_meaning_is_explained_once(caplog: pytest.LogCaptureFixture) -> None:
    flags = f"--micro-batch 5 --metric {CLICK_METRICS}"
    on_workers(3, lambda group: evaluated(flags, group=group, task=NoClicks)[0])
    assert [record.getMessage() for record in caplog.records] == [
        f"val_{name} is no number over the samples of --val, as {reason}"
        for name, reason in (
            ("auc", "there is no sample with the label, or none without"),
            ("calibration", "no sample has the label"),
            ("ndcg_at_3", "no user has a candidate with a gain"),
            ("recall_at_5", "no user has a candidate with the label"),
        )
    ]


def test_a_ranking_needs_to_know_whose_a_sample_is() -> None:
    with pytest.raises(
        UsageError, match=r"--metric ndcg: ranks the candidates of each user; --task .* `groups`"
    ):
        evaluated("--metric ndcg", task=WithoutUsers)


def test_a_number_of_which_neither_more_nor_less_is_better_is_no_score() -> None:
    with pytest.raises(UsageError, match="--score calibration: neither higher nor lower is better"):
        of_task(
            Clicks.numbered(
                config.parse(["--image-size", "16", "--metric", "calibration", "--score", "calibration"]), 2
            )
        )
