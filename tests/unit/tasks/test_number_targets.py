"""Numbers as targets: their statistics, their metrics, and the data sets that have none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain import config
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.arrays import statistics
from mxtrain.data.labels import targets
from mxtrain.data.records.record_file import classes_path, open_records
from mxtrain.data.records.record_writer import RecordWriter
from mxtrain.data.user.user_datasets import UserDataset
from mxtrain.tasks import registry
from mxtrain.tasks.metrics.metrics import Errors
from tests.support.reference_metrics import sklearn


class Output:
    """As MXNet's arrays are asked for their numbers."""

    def __init__(self, numbers: Any):
        self._numbers = numbers

    def asnumpy(self) -> Any:
        return self._numbers


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_errors_are_those_of_scikit_learn(offset: float) -> None:
    rng = np.random.default_rng(0)
    label = rng.normal(size=(50, 2)) * [1, 5] + offset
    output = label + rng.normal(size=(50, 2))
    metric = Errors(("width", "height"))
    batches = np.array_split(np.arange(50), 7)
    found = metric.finish([metric.state(Output(output[rows]), {"label": label[rows]}) for rows in batches])
    each = {"multioutput": "raw_values"}
    assert found["mae"] == pytest.approx(sklearn().mean_absolute_error(label, output))
    assert found["rmse"] == pytest.approx(sklearn().mean_squared_error(label, output) ** 0.5)
    assert found["r2"] == pytest.approx(sklearn().r2_score(label, output))
    assert [found["mae_width"], found["mae_height"]] == pytest.approx(
        sklearn().mean_absolute_error(label, output, **each)
    )
    assert [found["r2_width"], found["r2_height"]] == pytest.approx(sklearn().r2_score(label, output, **each))


@pytest.mark.parametrize("value", [3.0, 1000.1, -1e-30, 1.7e9])
@pytest.mark.parametrize(("apart", "expected"), [(0.0, 1.0), (0.5, 0.0)])
def test_a_number_that_never_changes_is_explained_or_not(apart: float, expected: float, value: float) -> None:
    metric, states = Errors(("one",)), []
    for size in (4, 3, 7):
        label = np.full((size, 1), value)
        states.append(metric.state(Output(label + apart), {"label": label}))
    assert metric.finish(states)["r2"] == expected


def test_statistics_are_exact_in_any_order() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(3000, 3)) * 10.0 ** rng.integers(-30, 30, (3000, 3))
    values = np.concatenate([values, np.full((3, 3), -5e-324), np.zeros((2, 3))])
    found = statistics.of_chunks(lambda: [values], 3)
    mixed = values[rng.permutation(len(values))]
    other = statistics.of_chunks(lambda: np.array_split(mixed, 7), 3)
    np.testing.assert_array_equal(found.mean, other.mean)
    np.testing.assert_array_equal(found.deviation, other.deviation)
    np.testing.assert_allclose(found.mean, values.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.deviation, values.std(axis=0), rtol=1e-9)


def test_a_constant_feature_is_standardised_to_zeros() -> None:
    values = np.array([[0.1, 1.0], [0.1, 3.0], [0.1, 5.0]])
    found = statistics.of_chunks(lambda: [values], 2)
    assert found.deviation[0] == 0
    standardised = found.standardised(values)
    np.testing.assert_array_equal(standardised[:, 0], 0)
    assert standardised[:, 1].std() == pytest.approx(1)
    np.testing.assert_allclose(found.restored(standardised), values)


def write(path: Path, labels: Any, class_names: list[str] | None = None) -> Any:
    with RecordWriter(path) as writer:
        for key, label in enumerate(labels):
            writer.write(key, label, b"picture")
    if class_names:
        classes_path(path).write_text("".join(f"{name}\n" for name in class_names))
    return open_records(path)


def test_targets_have_names_and_statistics(tmp_path: Path) -> None:
    rows = np.array([[1, 2], [3, 6]], np.float32)
    found = targets.check_targets(write(tmp_path / "a.rec", rows, ["width", "height"]))
    assert found.names == ("width", "height")
    assert targets.numbers_of_json(found.as_json()).as_json() == found.as_json()
    np.testing.assert_array_equal(found.statistics.mean, [2, 4])
    # Whole numbers are packed with a class list that calls them by themselves.
    found = targets.check_targets(write(tmp_path / "b.rec", [0.0, 2.0, 1.0], ["0", "1", "2"]))
    assert found.names == ("target0",)


@pytest.mark.parametrize(
    ("labels", "names", "words"),
    [
        ([0.0, 1.0], ["cat", "dog"], "its labels are classes ('cat' and others), not numbers"),
        (
            [0.0, float("nan"), 1.0],
            None,
            "record 1 (key 1) has a number to predict that is not finite; 1 such",
        ),
    ],
)
def test_labels_that_are_no_numbers_are_refused(
    labels: Any, names: list[str] | None, words: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=r"train\.rec") as refused:
        targets.check_targets(write(tmp_path / "train.rec", labels, names))
    assert words in str(refused.value)


@pytest.mark.parametrize("task", ["classification", "multilabel"])
@pytest.mark.parametrize("rows", [[[0.5], [1.0]], [[1.0, 7.0], [0.0, 1.0]]])
def test_numbers_that_are_taken_for_classes_name_the_task_for_them(
    rows: list[list[float]], task: str, tmp_path: Path
) -> None:
    train = write(tmp_path / "train.rec", np.array(rows, np.float32), ["width", "height"][: len(rows[0])])
    with pytest.raises(DataError, match="--task regression learns numbers of pictures"):
        registry.of_data(config.parse(["--task", task, "--train", "train.rec"]), train, None)
    names = registry.of_data(config.parse(["--task", "regression"]), train, None).description["targets"][
        "names"
    ]
    assert names == ["width", "height"][: len(rows[0])]


def test_validation_has_as_many_numbers(tmp_path: Path) -> None:
    known = targets.check_targets(write(tmp_path / "train.rec", np.ones((2, 3), np.float32)))
    with pytest.raises(DataError, match="has 1 numbers to predict a sample, the training set 3"):
        targets.check(write(tmp_path / "val.rec", [1.0]), known)


def test_numbers_that_float32_would_cut_away_are_no_validation_of_a_net_of_float32(tmp_path: Path) -> None:
    def dataset(name: str, labels: Any) -> UserDataset:
        return UserDataset(name, [(0.0, label) for label in labels])

    near, far = dataset("near", np.arange(60.0)), dataset("far", 1.7e9 + np.arange(60.0))
    known = targets.check_targets(near)
    assert (known.dtype, "dtype" in known.as_json()) == ("float32", False)  # as in earlier checkpoints
    with pytest.raises(DataError, match=r"far: .* changes too little for numbers so large"):
        targets.check(far, known)
    both = targets.check_targets(near, far)
    assert both.dtype == targets.numbers_of_json(both.as_json()).dtype == "float64"
    targets.check(near, both)


def test_a_number_that_never_changes_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    train, val = np.array([[1, 7], [2, 7]], np.float32), np.array([[3, 1], [3, 2]], np.float32)
    targets.check_targets(
        write(tmp_path / "train.rec", train, ["a", "b"]), write(tmp_path / "val.rec", val, ["a", "b"])
    )
    of_train, of_val = caplog.messages
    assert "train.rec: b is 7 in all samples: there is nothing to learn of it" in of_train
    assert "val.rec: a is 3 in all samples: r2 is 1 where all answers are that number" in of_val


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--mixup 0.2", "--mixup goes with --task classification"),
        ("--loss cross_entropy", "--loss cross_entropy goes with --task classification"),
        ("--label-smoothing 0.1", "--label-smoothing"),
        ("--num-classes 3", "--num-classes goes with --task classification"),
    ],
)
def test_flags_of_classes_are_refused(flags: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        registry.check_flags(config.parse(["--task", "regression", *flags.split()]))


def test_a_task_has_defaults_of_its_own() -> None:
    run = config.parse(["--task", "regression"])
    registry.check_flags(run)
    assert (run.model.loss, run.data.augment) == ("l2", "none")
    assert config.parse([]).model.loss == "cross_entropy"
    given = config.parse(["--task", "regression", "--loss", "huber:delta=2", "--augment", "pad_crop"])
    registry.check_flags(given)
    assert (given.model.loss, given.data.augment) == ("huber:delta=2", "pad_crop")
    assert config.from_flat(config.to_flat(given)) == given
