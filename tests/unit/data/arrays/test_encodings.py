"""Tables as they come: columns left out, booleans, categories, missing numbers, dates; CSV and Parquet alike."""

from __future__ import annotations

import datetime
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from mxtrain import config
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.arrays import array_fields, tables
from mxtrain.data.arrays.table_selection import Selection
from mxtrain.tasks import registry
from mxtrain.train.open_data import open_source
from tests.support.data.pack_command import in_this_process

PASSENGERS: dict[str, list[Any]] = {
    "": [0, 1, 2, 3],
    "name": ["Ann", "Bob", "Cid", "Dee"],
    "sex": ["female", "male", "male", "female"],
    "age": [20.0, None, 40.0, 60.0],
    "cabin": [1, 3, 2, 3],
    "alone": [True, False, False, True],
    "port": ["S", None, "C", "S"],
    "born": [datetime.date(1880, 1, day) for day in (1, 2, 3, 4)],
    "fare": [7.5, 8.5, 9.0, 30.0],
    "lived": [1.5, 0.5, 0.25, 1.0],
}
CHOSEN = Selection("lived", exclude="name,born", categories="sex,cabin,port", missing="mean")
FEATURES = (
    *("sex=female", "sex=male", "age", "age=missing", "cabin=1", "cabin=2", "cabin=3", "alone"),
    *("port=", "port=C", "port=S", "fare"),
)
ROWS = [
    [1, 0, 20, 0, 1, 0, 0, 1, 0, 0, 1, 7.5],
    [0, 1, 40, 1, 0, 0, 1, 0, 1, 0, 0, 8.5],
    [0, 1, 40, 0, 0, 1, 0, 0, 0, 1, 0, 9.0],
    [1, 0, 60, 0, 0, 0, 1, 1, 0, 0, 1, 30.0],
]


def write(path: Path, columns: dict[str, list[Any]]) -> Path:
    if path.suffix == ".parquet":
        named = {name or "__index_level_0__": values for name, values in columns.items()}
        pyarrow.parquet.write_table(pyarrow.table(named), path)
        return path
    rows = [["" if value is None else str(value) for value in row] for row in zip(*columns.values())]
    path.write_text("".join(",".join(row) + "\n" for row in [list(columns), *rows]))
    return path


def task_of(train: Path, selection: Selection, val: Path | None = None) -> tuple[Any, Any]:
    """Return the task as a checkpoint would bring it back, and the validation set."""
    run = config.Run.of(task="arrays", train=str(train), **selection._asdict())
    opened = open_source("--train", str(train), run)
    of_val = open_source("--val", str(val), run, opened) if val else None
    described = json.loads(json.dumps(registry.of_data(run, opened, of_val).description))
    return registry.of_description(run, described), of_val


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_columns_become_features_alike_in_all_files(tmp_path: Path, suffix: str) -> None:
    found = tables.open_records(write(tmp_path / f"a{suffix}", PASSENGERS), CHOSEN)
    assert found.layout.inputs[0].names == FEATURES
    np.testing.assert_array_equal([found.read(row).payload["data"] for row in range(4)], ROWS)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_other_tables_are_encoded_as_the_training_set(
    tmp_path: Path, suffix: str, caplog: pytest.LogCaptureFixture
) -> None:
    train = write(tmp_path / "train.csv", PASSENGERS)
    other = {name: PASSENGERS[name][:2] for name in ("", *list(PASSENGERS)[:0:-1])}
    other |= {"sex": ["male", "other"], "age": [None, 30.0], "port": ["C", "C"]}
    task, val = task_of(train, CHOSEN, write(tmp_path / f"val{suffix}", other))
    without_target = {name: values for name, values in other.items() if name != "lived"}
    with caplog.at_level(logging.WARNING):
        samples = task.samples_in(write(tmp_path / f"new{suffix}", without_target))
    expected = np.array([[0, 1, 40, 1, 1, 0, 0, 1, 0, 1, 0, 7.5], [0, 0, 30, 0, 0, 0, 1, 0, 0, 1, 0, 8.5]])
    statistics = task.inputs[0].statistics
    for row, (_, sample) in enumerate(samples):
        np.testing.assert_array_equal(sample["data"], expected[row])
        np.testing.assert_array_equal(val.read(row).payload["data"], expected[row])
        standard = statistics.standardised(expected[row]).astype(np.float32)
        np.testing.assert_array_equal(task.inputs_of(sample)["data"], standard)
    assert (
        "column sex has categories that the training set has not (rows: 1, the first 'other')" in caplog.text
    )


def test_records_of_a_table_bring_their_encodings(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", PASSENGERS)
    flags = ["--target", "lived", "--exclude", "name,born", "--categories", "sex,cabin,port"]
    done = in_this_process("pack", tmp_path / "a.csv", tmp_path / "a.rec", *flags, "--missing", "mean")
    assert done.returncode == 0, done.stderr
    layout = array_fields.read_sidecars([tmp_path / "a.rec"])
    assert layout.inputs[0].names == FEATURES and layout.inputs[0].encodings
    run = config.Run.of(task="arrays", train=str(tmp_path / "a.rec"))
    task = registry.of_data(run, open_source("--train", str(tmp_path / "a.rec"), run), None)
    samples = task.samples_in(tmp_path / "a.csv")
    np.testing.assert_array_equal([sample["data"] for _, sample in samples], ROWS)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"exclude": "born"}, "column name holds words ('Ann'), and nets take numbers; --categories name"),
        ({"exclude": "name"}, "column born holds dates ('1880-01-01')"),
        ({"exclude": "name", "categories": "born,sex,port"}, "column born holds dates ('1880-01-01')"),
        ({"missing": "refuse"}, "its age"),
        ({"missing": "refuse"}, "fill them by --missing mean"),
        ({"missing": "zero"}, "--missing zero: give refuse, mean, or the number"),
        ({"exclude": "nam"}, "has no column nam; did you mean 'name'?"),
        ({"inputs": "age"}, "--inputs and --exclude both choose columns"),
        ({"exclude": "lived"}, "--exclude lived: lived is to be predicted"),
    ],
)
def test_what_is_refused_names_the_column_and_the_flag(
    tmp_path: Path, suffix: str, changes: dict[str, str], words: str
) -> None:
    with pytest.raises((DataError, UsageError)) as refused:
        tables.open_records(write(tmp_path / f"a{suffix}", PASSENGERS), CHOSEN._replace(**changes))
    assert words in str(refused.value) and "\n" not in str(refused.value)


def test_a_word_among_numbers_is_never_filled(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", {"a": [1, "x", 3], "y": [1.5, 2.5, 3.5]})
    with pytest.raises(DataError, match="row 3: its a is 'x', no number: mend it"):
        tables.open_records(path, Selection(missing="0"))


def test_a_plain_table_is_described_as_before(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", {"a": [1, 2], "b": ["True", "false"], "y": [1.5, 2.5]})
    found = tables.open_records(path).layout.inputs[0]
    assert found.names == ("a", "b") and "encodings" not in found.as_json()
