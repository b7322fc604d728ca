"""Several checkpoints, and several views of each picture: what evaluate makes of them is what is computed by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import pytest

from mxtrain.checkpoint import directory
from mxtrain.config import Run
from mxtrain.data.augment.transforms import eval_transform
from mxtrain.data.records.record_sets import open_set
from mxtrain.evaluate import evaluate
from mxtrain.fit import fit
from mxtrain.inference import predictor, trained_run
from mxtrain.inference.ensemble import MeanAnswer
from mxtrain.models.parameters import weights
from mxtrain.predict import predict
from mxtrain.runtime import mx
from mxtrain.tasks import registry as tasks
from mxtrain.train import evaluation
from mxtrain.train.library import process_isolation
from mxtrain.train.open_data import open_source
from tests.support.amp import ALL_NARROW, needs_bf16
from tests.support.commands import Command
from tests.support.nets.training_steps import QUICK_NET
from tests.support.runs import records, scores_of
from tests.tasks.data import stripes

SIZE, RESIZE = 12, 16
FLAGS: dict[str, Any] = {
    **{"model": QUICK_NET, "image_size": SIZE, "val_resize": RESIZE, "augment": "none", "log": "none"},
    **{"optimizer": "adam", "lr": 0.01, "batch_size": 16, "micro_batch": 8, "epochs": 3, "keep_last": 3},
}


@pytest.fixture(autouse=True, scope="module")
def without_collections() -> Iterator[None]:
    """Save the time of Python's collector, which has all of pytest to go through."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process_isolation.gc, "collect", lambda: None)
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stripes")
    stripes.write(folder, 96, 27)
    return folder


def train(data: Path, out: Path, **others: Any) -> Path:
    fit(Run.of(**{**FLAGS, "train": data / "train.rec", "val": data / "val.rec", "out": out, **others}))
    return out


@pytest.fixture(scope="module")
def trained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(data, tmp_path_factory.mktemp("trained"))


def checkpoints(run: Path) -> list[Path]:
    return sorted(directory.of_run(run).glob("step-*"))


def pictures(data: Path) -> tuple[Any, Any]:
    """All pictures of val.rec at RESIZE, as a net takes them, and their labels."""
    opened, transform = open_set(str(data / "val.rec")), eval_transform(RESIZE, RESIZE)
    found = np.empty((len(opened), 3, RESIZE, RESIZE), np.float32)
    for position, picture in enumerate(found):
        transform(opened.read(position).payload, None, picture)
    return found, opened.labels().astype(int)


def probabilities(run: Path, which: str, data: Any) -> Any:
    found = trained_run.find_checkpoint(run, which, "cpu")
    with trained_run.net_of(found, trained_run.run_of(found, {}), "cpu") as (net, _):
        return net(mx.nd.array(np.ascontiguousarray(data))).softmax(axis=1).asnumpy().astype(np.float64)


def centre(data: Any) -> Any:
    return data[:, :, 2:14, 2:14]


def crops(data: Any) -> list[Any]:
    corners = [data[:, :, top : top + SIZE, left : left + SIZE] for top in (0, 4) for left in (0, 4)]
    return [centre(data), *corners]


def assert_scores(scores: dict[str, Any], shares: Any, labels: Any) -> None:
    own = shares[np.arange(len(labels)), labels]
    assert scores["val_loss"] == pytest.approx(-np.log(own).mean(), rel=1e-5)
    assert scores["val_accuracy"] == (shares.argmax(axis=1) == labels).mean()
    assert scores["num_samples"] == len(labels)


@pytest.mark.parametrize("tta", ["", "flip", "crops", "flip+crops"])
def test_views_of_a_picture_are_averaged_as_probabilities(tta: str, trained: Path, data: Path) -> None:
    whole, labels = pictures(data)
    views = crops(whole) if "crops" in tta else [centre(whole)]
    views += [view[..., ::-1] for view in views] if "flip" in tta else []
    shares = np.mean([probabilities(trained, "latest", view) for view in views], axis=0)
    assert_scores(evaluate(trained, checkpoint="latest", tta=tta), shares, labels)


def test_two_devices_average_to_the_same_bits(trained: Path) -> None:
    one, two = (evaluate(trained, tta="flip+crops", devices=devices) for devices in ("cpu", "cpu:0,1"))
    assert one == two and one != evaluate(trained)


def test_weights_of_several_checkpoints_are_averaged(trained: Path) -> None:
    files = [mx.nd.load(str(path / "weights.params")) for path in checkpoints(trained)[-2:]]
    expected = {
        name: np.mean([each[name].asnumpy().astype(np.float64) for each in files], axis=0)
        for name in files[0]
    }
    assert any("running_var" in name for name in expected)
    found = trained_run.find_checkpoint(trained, "last:2", "cpu")
    with trained_run.net_of(found, trained_run.run_of(found, {}), "cpu") as (net, _):
        for name, array in weights.copy_of(net).items():
            np.testing.assert_array_equal(array, expected[name].astype(np.float32))
    steps = ",".join(str(int(path.name[5:])) for path in checkpoints(trained)[-2:])
    scores = evaluate(trained, checkpoint="last:2", report=True)
    assert [Path(path) for path in scores["checkpoints"]] == checkpoints(trained)[-2:][::-1]
    assert scores_of(scores) == evaluate(trained, checkpoint=steps) == evaluate(checkpoints(trained)[-2:])
    assert scores_of(scores) != evaluate(trained, checkpoint="latest")


def test_a_checkpoint_named_twice_counts_once(trained: Path) -> None:
    (last,) = checkpoints(trained)[-1:]
    assert evaluate([last, last]) == evaluate(last) == evaluate(trained, checkpoint="last:1")


def test_answers_of_several_checkpoints_are_averaged(trained: Path, data: Path) -> None:
    whole, labels = pictures(data)
    steps = [path.name for path in checkpoints(trained)]
    shares = np.mean([probabilities(trained, step, centre(whole)) for step in steps], axis=0)
    assert_scores(evaluate(trained, checkpoint=",".join(steps), ensemble=True), shares, labels)


@pytest.mark.parametrize(
    ("kind", "mean"),
    [("labels", lambda scores: 1 / (1 + np.exp(-scores))), ("numbers", lambda scores: scores)],
)
def test_the_mean_of_other_answers(kind: str, mean: Any) -> None:
    nets = [lambda data, factor=factor: data * factor for factor in (1.0, -0.5, 3.0)]
    scores = np.array([[-3.0, 0.0, 2.0], [0.5, 1.0, -1.0]], np.float32)
    found = MeanAnswer(nets, [lambda data: data], kind)(mx.nd.array(scores)).asnumpy()
    expected = np.mean([mean(scores * factor) for factor in (1.0, -0.5, 3.0)], axis=0)
    np.testing.assert_allclose(mean(found.astype(np.float64)), expected, rtol=1e-5)


@pytest.mark.parametrize("kind", ["classes", "labels"])
def test_a_mean_of_tiny_probabilities_has_a_logarithm(kind: str) -> None:
    scores = mx.nd.array([[1e4, -1e4, 0.0]])
    found = MeanAnswer([lambda data: data, lambda data: data], [lambda data: data], kind)(scores).asnumpy()
    assert np.isfinite(found).all() and found.argmax() == 0


@pytest.mark.parametrize(
    "flags",
    [
        {"ema": 0.9, "devices": "cpu:0,1"},  # tests/tasks/test_runs.py has every task on one device
        # The one before holds in small that nothing else is computed.
        pytest.param(
            {"amp": "bf16", "amp_table": str(ALL_NARROW)}, marks=[needs_bf16, pytest.mark.slow], id="bf16"
        ),
    ],
)
def test_scores_are_those_of_training(flags: dict[str, Any], data: Path, tmp_path: Path) -> None:
    train(data, tmp_path, **{"epochs": 2, **flags})
    judged = [each for each in records(tmp_path) if each["kind"] == "eval"]
    for path, told in zip(checkpoints(tmp_path), judged):
        scores = [evaluate(path, devices=devices) for devices in ("cpu", "cpu:0,1")]
        assert scores[0] == scores[1]
        assert scores[0] == scores_of(told)
        assert "amp" in flags or evaluate(path, hold="layers") == scores_of(told)


def test_an_evaluation_after_further_training_is_that_of_a_fresh_process(
    data: Path, tmp_path: Path, command: Command
) -> None:
    before = evaluate(train(data, tmp_path, epochs=1), checkpoint="latest")
    after = evaluate(train(data, tmp_path, epochs=2), checkpoint="latest")
    told = command("mxtrain.evaluate", tmp_path, "--checkpoint", "latest", "--json")
    assert told.returncode == 0, told.stderr
    assert after == scores_of(json.loads(told.stdout)) and after["val_loss"] != before["val_loss"]


def test_evaluate_computes_what_predict_answers_by(trained: Path) -> None:
    """The loss by `predict`'s net is that of `evaluate` to the bit, and training's net has other last bits."""
    opened = predictor.open_run(trained, "latest", "cpu", {}, with_losses=True)
    task, told = opened.task, evaluate(trained, checkpoint="latest", report=True)

    def judged(net: Any, devices: Any) -> Any:
        val_set = open_source("--val", str(opened.run.data.val), opened.run, task)
        forward = tasks.function_of(task, task.plain_forward)
        found = evaluation.evaluate(task, forward, net, val_set, devices)
        return found and found.scores

    with predictor.open_predictor(opened, "cpu") as answering:
        assert judged(answering.net, [answering.context]) == scores_of(told)
    with trained_run.net_of(opened.checkpoint, opened.run, "cpu") as (net, devices):
        assert judged(net, devices)["val_loss"] != told["val_loss"]
    wrong = [each["loss"] for each in told["worst"] if each["label"] != each["predicted"]]
    mistakes = predict(trained, checkpoint="latest", mistakes=len(wrong))
    assert wrong and [each["loss"] for each in mistakes] == wrong
