"""Nets with a table out to ONNX: looked-up rows and the table beside, and ids where the table fits."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from examples import recommender_data
from mxtrain.data.ids.id_columns import of_column
from mxtrain.predict import predict
from mxtrain.tables import saved_table
from tests.support.commands import Command
from tests.support.runs import newest

COLUMNS = ["--target", "click", "--categories", "user,item,device", "--lists", "tags", "--list-length", "4"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clicks")
    recommender_data.write_clicks(folder, num_train=600, num_val=100)
    return folder


def trained(command: Command, data: Path, out: Path, model: str) -> Path:
    done = command(
        *("mxtrain.fit", "--task", "recommendation", "--model", model, *COLUMNS, "--log-columns", "price"),
        *("--train", data / "clicks_train.csv", "--val", data / "clicks_val.csv", "--batch-size", "100"),
        *("--micro-batch", "50", "--optimizer", "adam", "--epochs", "2", "--threads", "1", "--out", out),
    )
    assert done.returncode == 0, done.stderr
    return out


def samples(data: Path) -> list[dict[str, Any]]:
    """Rows as a program has them: one of validation, one with no tag, one of a user that nobody knows."""
    with (data / "clicks_train.csv").open() as file:
        row = next(csv.DictReader(file))
    known = {"user": int(row["user"]), "item": int(row["item"]), "device": row["device"]}
    tags = row["tags"].split("|")
    return [
        {**known, "price": 3.5, "tags": tags},
        {**known, "price": 0.0, "tags": []},
        {"user": 10**17, "item": -1, "device": "none such", "price": 100.0, "tags": [4, 10**12]},
    ]


def ids(column: str, *values: Any) -> list[int]:
    from mxtrain.tables import hashing

    own = [value if isinstance(value, int) else hashing.ids_of([value])[0] for value in values]
    found: list[int] = of_column(column, np.array(own, np.int64)).tolist()
    return found


@pytest.mark.parametrize(
    ("model", "batch"),
    [
        ("deepfm:hidden=16", []),
        pytest.param("wide_deep:hidden=16", ["--dynamic-batch"], marks=pytest.mark.slow),
        pytest.param("dlrm:hidden=16", ["--dynamic-batch"], marks=pytest.mark.slow),
    ],
)
def test_onnx_answers_as_the_run_does(
    data: Path, tmp_path: Path, command: Command, model: str, batch: list[str]
) -> None:
    run = trained(command, data, tmp_path / "run", model)
    done = command("mxtrain.export", run, "--to", "onnx", *(batch or ["--batch", "3"]))
    assert done.returncode == 0, done.stderr
    folder = run / "export" / "onnx"
    described = json.loads((folder / "export.json").read_text())
    assert described["table"]["fields"] == ["user", "item", "device", "tags"]
    assert described["whole_apart"] < 1e-5 and described["compared"]["relative"] < 1e-5
    known, _ = saved_table.whole(folder, "rows")
    assert np.array_equal(known, saved_table.whole(newest(run), "rows")[0]) and len(known) > 100

    session = onnxruntime.InferenceSession(str(folder / "whole.onnx"))
    few = samples(data)
    lists = np.zeros((3, 4), np.int64)
    for place, sample in enumerate(few):
        lists[place, : len(sample["tags"])] = ids("tags", *sample["tags"])
    columns = ("user", "item", "device")
    inputs = {
        "ids": np.array([[ids(column, sample[column])[0] for column in columns] for sample in few]),
        "tags": lists,
        "tags_lengths": np.array([len(sample["tags"]) for sample in few]),
        "numbers": _standardised(described, few),
    }
    logits = session.run(None, inputs)[0].ravel()
    shares = 1 / (1 + np.exp(-logits))
    expected = [each["click"] for each in predict(run, few)]
    # An id that nobody has seen has zeros here, and in predict the small numbers that its row would begin with.
    assert shares[:2] == pytest.approx(expected[:2], abs=1e-5)
    assert shares[2] == pytest.approx(expected[2], abs=0.02)


def _standardised(described: dict[str, Any], few: list[dict[str, Any]]) -> Any:
    (numbers,) = [each for each in described["description"]["inputs"] if each["name"] == "numbers"]
    found = np.log1p([[sample["price"]] for sample in few])
    return ((found - numbers["mean"]) / numbers["deviation"]).astype(np.float32)


def test_such_an_export_is_not_scored_and_other_ways_out_say_why(
    data: Path, tmp_path: Path, command: Command
) -> None:
    run = trained(command, data, tmp_path / "run", "deepfm:hidden=4")
    assert command("mxtrain.export", run, "--to", "symbol").returncode == 0
    done = command("mxtrain.evaluate", run / "export" / "symbol")
    assert done.returncode == 2 and "takes rows that were looked up, and is not scored" in done.stderr
