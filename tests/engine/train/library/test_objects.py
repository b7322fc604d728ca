"""Objects of a Python program beside a run: whatever copy of it trains with them, each in its own place."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.config import Run
from mxtrain.config.flags import from_python
from mxtrain.core.errors import UsageError
from mxtrain.evaluate import evaluate
from mxtrain.export import export
from mxtrain.fit import Result, fit
from mxtrain.models.parameters import weights
from mxtrain.runtime import mx
from mxtrain.tasks.arrays import Arrays
from mxtrain.train import session
from mxtrain.train.library import process_isolation

X = np.random.default_rng(0).uniform(-1, 1, (64, 2)).astype(np.float32)
DATA = X, (X[:, 0] > X[:, 1]).astype(np.int64)


@pytest.fixture(autouse=True)
def without_collections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save the time of Python's collector, which has all of pytest to go through."""
    monkeypatch.setattr(process_isolation.gc, "collect", lambda: None)


def run_in(out: Path) -> Run:
    return Run.of(task="arrays", loss="cross_entropy", batch_size=32, epochs=1, log="none", out=out)


def bits(net: Any) -> list[bytes]:
    return [array.tobytes() for array in weights.copy_of(net).values()]


class Above:
    """The share of samples whose first answer is above a level: many metrics of one type."""

    def __init__(self, level: float):
        self.names = (f"above_{level}",)
        self._level = level

    def state(self, output: Any, arrays: Any) -> Any:
        return [(output.asnumpy()[:, 0] > self._level).sum(), len(arrays["label"])]

    def finish(self, states: Any) -> dict[str, float]:
        above, count = np.sum(states, axis=0)
        return {self.names[0]: above / count}


def test_metrics_of_one_type_are_all_used(tmp_path: Path) -> None:
    metric = [Above(-100.0), "macro_f1,auc", Above(100.0)]
    result = fit(run_in(tmp_path), train=DATA, val=DATA, metric=metric)
    text = f"<object of type {__name__}.Above>"
    assert result.run.output.metric == f"{text},macro_f1,auc,{text}"
    scores = evaluate(result)
    assert {name: result.best[name] for name in scores} == scores
    assert (scores["val_above_-100.0"], scores["val_above_100.0"]) == (1.0, 0.0)
    assert {"val_macro_f1", "val_auc"} < scores.keys()
    turned = evaluate(tmp_path, val=DATA, metric=list(reversed(metric)))
    assert {name: turned[name] for name in scores} == scores
    with pytest.raises(UsageError, match=f"--metric {text}: was an object of .* as metric=..., to"):
        evaluate(tmp_path, val=DATA)


def trained(run: Run, objects: Any) -> Any:
    with process_isolation.isolated_run():
        return session.train(session.prepare(run, objects=objects), [])


def test_any_copy_of_a_run_trains_with_its_objects(tmp_path: Path) -> None:
    num_calls = [0]

    def loss(output: Any, label: Any) -> Any:
        num_calls[0] += 1
        return -output.log_softmax(axis=1).pick(label, axis=1)

    def net(inputs: Any, outputs: int) -> Any:
        return mx.gluon.nn.Dense(outputs)

    values = {"train": DATA, "val": DATA, "model": net, "loss": loss, "optimizer": mx.optimizer.Adam()}
    values["schedule"] = lambda progress: 1 - progress / 2
    found = []
    for number, copied in enumerate(
        (
            lambda run: run,
            copy.deepcopy,
            lambda run: pickle.loads(pickle.dumps(run)),
            lambda run: dataclasses.replace(run, optim=dataclasses.replace(run.optim, seed=0)),
        )
    ):
        run, objects = from_python.with_objects(run_in(tmp_path / str(number)), values)
        before = num_calls[0]
        ended = trained(copied(run), objects)
        assert num_calls[0] > before and ended.ending == "done" and ended.objects is objects
        found.append(bits(ended.net))
    assert found == found[:1] * 4
    with pytest.raises(UsageError, match="--train <object of type tuple>: was an object"):
        trained(run, from_python.with_objects(run, {})[1])


def test_the_run_of_a_result_trains_again_with_the_objects_that_it_is_given(tmp_path: Path) -> None:
    def again(run: Run, **others: Any) -> Result:
        return fit(run, train=DATA, loss=mx.gluon.loss.SoftmaxCrossEntropyLoss(), **others)

    result = again(run_in(tmp_path / "a"), net=mx.gluon.nn.Dense(2))
    output = dataclasses.replace(result.run.output, out=str(tmp_path / "b"))
    other = dataclasses.replace(copy.deepcopy(result.run), output=output)
    net = mx.gluon.nn.Dense(2)
    assert again(other, net=net).net is net and bits(net) == bits(result.net)
    with pytest.raises(UsageError, match=r"--model <object of .*Dense>: was an object .* as net=..., to"):
        again(other)
    made = export(
        tmp_path / "a", to="symbol", val=DATA, net=mx.gluon.nn.Dense(2)
    )  # the loss is of no interest
    assert made.files and export(result, to="symbol", out=tmp_path / "c").files


def test_a_task_with_a_constructor_of_its_own_has_the_objects(tmp_path: Path) -> None:
    class Own(Arrays):
        def __init__(self, run: Run, description: dict[str, Any]):
            super().__init__(run, description)

    def loss(output: Any, label: Any) -> Any:
        return -output.log_softmax(axis=1).pick(label, axis=1)

    net = mx.gluon.nn.Dense(2)
    result = fit(run_in(tmp_path), train=DATA, val=DATA, task=Own, net=net, loss=loss, metric=Above(0.0))
    assert result.net is net and "val_above_0.0" in result.best
    assert evaluate(result)["val_loss"] == result.best["val_loss"]
