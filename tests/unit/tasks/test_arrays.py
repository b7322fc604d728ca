"""The task of arrays: what it finds in data, what it refuses, and what a net gets of a sample."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain import config
from mxtrain.config.checks import run_checks
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.arrays import tables
from mxtrain.data.arrays.columns import dataset_of
from mxtrain.data.arrays.table_selection import Selection
from mxtrain.data.user.user_datasets import UserDataset
from mxtrain.tasks import registry
from mxtrain.tasks.arrays import Arrays
from mxtrain.tasks.metrics import metric_selection
from mxtrain.train.open_data import open_source
from tests.support.data.pack_command import in_this_process

RNG = np.random.default_rng(0)
X = RNG.normal(1e6, 3, (12, 2))


def task_of(train: Any, val: Any = None, flags: str = "") -> Arrays:
    found = registry.of_data(config.parse(["--task", "arrays", *flags.split()]), train, val)
    assert isinstance(found, Arrays)
    return found


def own(x: Any, y: Any = None) -> UserDataset:
    """What `train=(x, y)` of a Python program becomes."""
    return UserDataset("(x, y)", dataset_of(x if y is None else (x, y), "train"), "--train", Arrays.record_of)


def table(folder: Path, name: str, columns: dict[str, Any]) -> Any:
    np.savez(folder / f"{name}.npz", **columns)
    return tables.open_records(folder / f"{name}.npz", Selection("y"))


def sample(task: Arrays, dataset: Any, position: int) -> dict[str, Any]:
    return task.reader(is_training=True)(dataset.read(position), np.random.default_rng(0), {})  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("labels", "flags", "expected"),
    [
        ([0, 1, 2] * 4, "", "3 classes"),
        ([0, 1, 2] * 4, "--loss l1", "1 number to predict"),
        ([0, 1, 3] * 4, "", "1 number to predict"),  # there is no 2
        ([0, 1, 3] * 4, "--loss cross_entropy", "4 classes"),
        ([0, 1, 2] * 4, "--label-smoothing 0.1", "3 classes"),
        ([0.5, 1, 2] * 4, "", "1 number to predict"),
        ([[0, 1]] * 12, "", "2 numbers to predict"),
        ([7] * 12, "", "1 number to predict"),
    ],
)
def test_data_and_loss_say_whether_classes_are_learnt(labels: Any, flags: str, expected: str) -> None:
    run_checks.check_description(config.parse(["--task", "arrays", "--train", "a.npz", *flags.split()]))
    task = task_of(own(X, labels), flags=flags)
    assert task.summary().startswith(expected)
    again = registry.of_description(task.run, task.description)
    assert again.summary() == task.summary() and again.fields == task.fields


@pytest.mark.parametrize(
    ("labels", "flags", "words"),
    [
        ([0.5, 1, 2] * 4, "--loss focal", "are not whole numbers"),
        ([0.5, 1, 2] * 4, "--label-smoothing 0.1", "--label-smoothing is for classes"),
        ([0.5, 1, 2] * 4, "--num-classes 3", "--num-classes is for classes"),
        ([0.5, np.nan, 2] * 4, "", "is not finite"),
        ([0, 1] * 6, "--model conv1d:kernel=4", "kernel is even"),
    ],
)
def test_flags_that_the_data_has_no_use_for(labels: Any, flags: str, words: str) -> None:
    with pytest.raises((DataError, UsageError)) as refused:
        task_of(own(X, labels), flags=flags)
    assert words in str(refused.value)


def test_words_are_classes_and_no_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("size,y\n1,cat\n2,dog\n")
    records = tables.open_records(tmp_path / "a.csv")
    assert task_of(records).description["class_names"] == ["cat", "dog"]
    with pytest.raises(DataError, match=r"its targets are classes \('cat' and others\), and --loss l2"):
        task_of(records, flags="--loss l2")


def test_numbers_are_standardised_as_a_float32_could_not(tmp_path: Path) -> None:
    times = 1.6e9 + np.arange(12.0)  # seconds; a float32 has one number for 128 of them
    records = table(tmp_path, "a", {"times": times, "same": np.full(12, 0.1), "y": times})
    task = task_of(records)
    found = np.array([sample(task, records, position)["data"] for position in range(12)])
    np.testing.assert_allclose(found[:, 0], (np.arange(12) - 5.5) / np.arange(12).std(), rtol=1e-6)
    np.testing.assert_array_equal(found[:, 1], 0)
    assert task.summary() == "1 number to predict (y) from data 2"


def test_samples_of_several_arrays_that_vary_in_length() -> None:
    waves = [np.full((length, 2), float(length)) for length in (3, 9, 20, 5)]
    train = [({"wave": wave, "gain": [1.0 + k]}, [0.5 * k, 2.0]) for k, wave in enumerate(waves)]
    longer = [({"wave": np.zeros((24, 2)), "gain": [0.0]}, [1.0, 2.0])]
    task = task_of(own(train), own(longer), "--model lstm")
    wave, mask, gain, label = task.fields
    assert (wave.name, wave.shape, wave.multiple) == ("wave", (24, 2), 3)
    assert (mask.name, mask.shape, mask.multiple) == ("wave_mask", (24,), 3)
    assert (gain.shape, label.shape) == ((1,), (2,))
    found = sample(task, own(train), 1)
    assert found["wave"].shape == (9, 2) and found["wave_mask"].tolist() == [1] * 9
    np.testing.assert_array_equal(found["label"], [0.5, 2])
    with pytest.raises(UsageError, match="--model mlp: takes arrays of fixed shapes, and wave varies"):
        task_of(own(train))


@pytest.mark.parametrize("varies", [False, True])
def test_lstms_over_series_of_two_lengths_are_refused(varies: bool) -> None:
    """They would end the process: see docs/arrays.md."""
    steps = [(9 + k * varies, 12 - k * varies) for k in range(4)]
    train = [({"wave": np.zeros((a, 2)), "beat": np.ones((b, 1))}, [1.0 * a]) for a, b in steps]
    with pytest.raises(
        UsageError, match=r"--model lstm: .* those of wave and beat differ; give conv1d, or pad them"
    ):
        task_of(own(train), flags="--model lstm")
    task_of(own(train), flags="--model conv1d")
    same = [({"wave": np.zeros((9, 2)), "beat": np.ones((9, 1)), "gain": [0.5]}, [1.0 * k]) for k in range(4)]
    task_of(own(same), flags="--model lstm")


def test_columns_by_names_have_their_target_among_them() -> None:
    columns = {"a": X, "b": X[:, :1], "y": [0, 1] * 6}
    task = task_of(own(columns))
    assert [each.name for each in task.inputs] == ["a", "b"] and task.summary().startswith("2 classes")
    with pytest.raises(UsageError, match="and no target among them"):
        task_of(own({"a": X, "b": X}))


@pytest.mark.parametrize(
    ("x", "words"),
    [
        ([[1.0, 2.0], [3.0, np.nan]], "sample 1: its data holds a number that is not finite"),
        ([[1.0], ["a"]], "its data holds <U1, not numbers"),
        ([1.0, 2.0], "has samples of shape ()"),
        ([np.zeros((2, 2)), np.zeros((2, 3))], "of which only the first may vary"),
    ],
)
def test_samples_that_no_net_can_take_are_refused(x: Any, words: str) -> None:
    with pytest.raises(DataError) as refused:
        task_of(own(x, [0.5, 2.0]))
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"x": X[:, :1]}, "has x 1, but the net takes x 2"),
        ({"z": X}, "has an array z; the net takes x"),
        ({"x": X, "z": X}, "has an array z"),
        ({"x": np.zeros((12, 2, 2))}, "has x 2 x 2, but the net takes x 2"),
    ],
)
def test_validation_has_the_same_arrays(tmp_path: Path, columns: dict[str, Any], words: str) -> None:
    train = table(tmp_path, "train", {"x": X, "y": X[:, 0]})
    val = table(tmp_path, "val", {**columns, "y": X[:, 0]})
    with pytest.raises(DataError) as refused:
        task_of(train, val)
    assert words in str(refused.value) and "val.npz" in str(refused.value)


@pytest.mark.parametrize("task", ["classification", "multilabel", "regression"])
def test_tasks_of_pictures_take_no_arrays(tmp_path: Path, task: str) -> None:
    np.savez(tmp_path / "a.npz", x=X, y=[0, 1] * 6)
    run = config.parse(["--task", task, "--train", "a"])
    with pytest.raises(UsageError, match=r"--train .*a\.npz: is a table or a file of arrays.*--task arrays"):
        open_source("--train", str(tmp_path / "a.npz"), run)
    assert in_this_process("pack", tmp_path / "a.npz", tmp_path / "a.rec").returncode == 0
    records = open_source("--train", str(tmp_path / "a.rec"), run)
    with pytest.raises(DataError, match=r"a\.rec: holds arrays, not pictures; give --task arrays"):
        registry.of_data(run, records, None)


@pytest.mark.parametrize(("metric", "labels"), [("auc", [0, 1] * 6), ("r2", X[:, 0])])
def test_metrics_by_name_fit_what_is_predicted(metric: str, labels: Any) -> None:
    task = task_of(own(X, labels), flags=f"--metric {metric} --score {metric}")
    assert metric_selection.of_task(task).score.name == metric


def test_validation_has_the_same_columns(tmp_path: Path) -> None:
    for name, line in (("train", "a,b,y"), ("val", "b,a,y")):
        (tmp_path / f"{name}.csv").write_text(f"{line}\n1,2,3.5\n4,5,6\n")
    train, val = (tables.open_records(tmp_path / f"{name}.csv") for name in ("train", "val"))
    with pytest.raises(DataError, match="its columns are others, or in another order: b is not at its place"):
        task_of(train, val)


def test_samples_of_files_are_found_by_their_columns(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("a,b,y\n1,2,3.5\n4,5,6\n")
    task = task_of(tables.open_records(tmp_path / "train.csv"))
    (tmp_path / "new.csv").write_text("c,b,a\nx,5,4\ny,2,1\n")
    (first, row), _ = task.samples_in(tmp_path / "new.csv")
    assert first.endswith("new.csv:2")
    np.testing.assert_allclose(task.inputs_of(row)["data"], [1, 1])
    for text, words in (
        ("a,c\n1,2\n", "no column called b"),
        ("a,b\n1,\n2,3\n", "row 2: its b is empty, or no finite number"),
    ):
        (tmp_path / "new.csv").write_text(text)
        with pytest.raises(DataError) as refused:
            task.samples_in(tmp_path / "new.csv")
        assert words in str(refused.value)
    for value in ([1.0], [1.0, np.inf], "words", {"other": [1.0, 2.0]}, [[1.0, 2.0]]):
        with pytest.raises(DataError):
            task.inputs_of(np.array(value) if value == "words" else value)
