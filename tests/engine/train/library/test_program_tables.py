"""Tables of a Python program in `fit`, `evaluate` and `predict`: the bits of a file of the same columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.config import Run
from mxtrain.core.errors import Stop, UsageError
from mxtrain.evaluate import evaluate
from mxtrain.fit import Result, StopTraining, fit
from mxtrain.models.parameters import weights
from mxtrain.predict import predict
from mxtrain.train.library import process_isolation

pandas = pytest.importorskip("pandas")

NUM = 96
FLAGS = {
    "task": "recommendation",
    "target": "click",
    "categories": "user,item",
    "model": "deepfm:width=4,hidden=8",
    "batch_size": 32,
    "epochs": 2,
    "log": "none",
}


@pytest.fixture(autouse=True)
def without_collections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save the time of Python's collector, which has all of pytest to go through."""
    monkeypatch.setattr(process_isolation.gc, "collect", lambda: None)


def table(seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    users, items = rng.integers(0, 9, (2, NUM))
    return {
        "user": users,
        "item": items,
        "age": rng.normal(size=NUM),
        "tags": [list(rng.integers(0, 5, count)) for count in rng.integers(0, 4, NUM)],
        "click": ((users + items) % 2).astype(np.float64),
    }


def npz(path: Path, columns: dict[str, Any]) -> str:
    tags = columns["tags"]
    flat = {"tags": np.concatenate(tags).astype(np.int64), "tags_lengths": list(map(len, tags))}
    np.savez(path, **{**columns, **flat})
    return str(path)


def run_in(out: Path, **flags: Any) -> Run:
    return Run.of(**{**FLAGS, "out": out, **flags})


def bits(result: Result) -> Any:
    losses = [
        each.get("loss", each.get("val_loss")) for each in result.history if each["kind"] in ("train", "eval")
    ]
    return losses, [array.tobytes() for array in weights.copy_of(result.net).values()]


def test_columns_are_learnt_as_those_of_a_file(tmp_path: Path) -> None:
    train, val = table(), table(1)
    from_file = fit(
        run_in(tmp_path / "f", train=npz(tmp_path / "t.npz", train), val=npz(tmp_path / "v.npz", val))
    )
    for name, kind in (("mapping", dict), ("frame", pandas.DataFrame)):
        result = fit(run_in(tmp_path / name), train=kind(train), val=kind(val))
        assert bits(result) == bits(from_file)
        of_file = evaluate(tmp_path / "f")
        assert evaluate(result) == of_file == evaluate(tmp_path / name, val=kind(val))
    answers = predict(result, pandas.DataFrame(val))
    assert [each["click"] for each in answers] == [
        each["click"] for each in predict(tmp_path / "f", tmp_path / "v.npz")
    ]
    one = {name: column[0] for name, column in val.items()}
    assert predict(result, [one])[0]["click"] == pytest.approx(answers[0]["click"], abs=1e-6)


def test_it_goes_on_with_the_same_columns_alone(tmp_path: Path) -> None:
    def stop(record: Any) -> None:
        if record["step"] == 2:
            raise StopTraining

    whole = fit(run_in(tmp_path / "whole"), train=table())
    assert fit(run_in(tmp_path / "run"), train=table(), on_step=stop).stopped
    other = table()
    other["age"] = other["age"] + 1
    with pytest.raises(Stop, match="records of other content"):
        fit(run_in(tmp_path / "run"), train=other)
    assert bits(fit(run_in(tmp_path / "run"), train=table())) == bits(whole)


def test_negatives_know_what_was_chosen_in_a_table_of_the_program(tmp_path: Path) -> None:
    def likes(seed: int) -> dict[str, Any]:
        users, items = np.divmod(np.random.default_rng(seed).permutation(90)[:40], 10)
        return {"user": users, "item": items, "click": np.ones(40)}

    flags = {"negatives": "2:val=3", "metric": "ndcg:k=2,by=user"}
    train, val = likes(0), likes(1)
    np.savez(tmp_path / "t.npz", **train)
    np.savez(tmp_path / "v.npz", **val)
    files = {"train": str(tmp_path / "t.npz"), "val": str(tmp_path / "v.npz")}
    from_file = fit(run_in(tmp_path / "f", **files, **flags))
    result = fit(run_in(tmp_path / "m", **flags), train=train, val=pandas.DataFrame(val))
    assert bits(result) == bits(from_file)
    assert evaluate(result) == evaluate(tmp_path / "f")
    with pytest.raises(UsageError, match="--train <object of type dict>: was an object of a Python program"):
        evaluate(tmp_path / "m", val=val)


def test_arrays_of_a_frame(tmp_path: Path) -> None:
    frame = pandas.DataFrame(
        {"size": np.arange(32.0), "colour": ["red", "blue"] * 16, "price": np.arange(32) / 7}
    )
    frame.to_csv(tmp_path / "a.csv", index=False)
    flags = {"task": "arrays", "target": "price", "categories": "colour", "model": "mlp"}
    from_file = fit(run_in(tmp_path / "f", train=str(tmp_path / "a.csv"), **flags))
    result = fit(run_in(tmp_path / "m", **flags), train=frame)
    assert bits(result) == bits(from_file)
    answers, of_file = predict(result, frame), predict(result, tmp_path / "a.csv")
    assert [each["price"] for each in answers] == [each["price"] for each in of_file]
    assert answers[3]["input"] == "this table:3"
