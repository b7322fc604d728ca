"""Arrays of a stream: what its first samples say of it, and what is done about those that come later."""

from __future__ import annotations

import itertools
from typing import Any, Callable, Iterator

import numpy as np
import pytest

from mxtrain import config
from mxtrain.checkpoint.input_identity import InputIdentity
from mxtrain.config.flags import from_python
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.arrays.columns import dataset_of
from mxtrain.data.fields import num_bytes, rows
from mxtrain.data.loading.assembly import BatchSlice, SampleAssembly
from mxtrain.data.user.user_datasets import UserDataset
from mxtrain.tasks import registry
from mxtrain.tasks.arrays import Arrays
from mxtrain.train.open_data import open_source

LOOK = 1000
Sample = Callable[[int], Any]


def point(number: int) -> Any:
    return np.random.default_rng(number).normal(1e6, 3, 2), number % 3


class Once:
    """A stream that cannot be begun again; it counts what was taken of it."""

    def __init__(self, sample: Sample):
        self.taken, self._sample, self._numbers = 0, sample, itertools.count()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        self.taken += 1
        return self._sample(next(self._numbers))


def opened(source: Any, flags: str = "", epoch_steps: int = 100) -> tuple[Any, Any]:
    """The task and the stream of a run on batches of 16."""
    line = f"--task arrays --batch-size 16 --epoch-steps {epoch_steps} {flags}"
    return opened_of(source, line)


def opened_of(source: Any, line: str) -> tuple[Any, Any]:
    run, objects = from_python.with_objects(config.parse(line.split()), {"train": source})
    stream = open_source("--train", str(run.data.train), run, objects=objects)
    return registry.of_data(run, stream, None), stream


def read(task: Any, stream: Any, position: int) -> dict[str, Any]:
    """The sample at a position, as a loader makes it."""
    memory = rows(task.fields, 1, np.zeros(num_bytes(task.fields, 1), np.uint8))
    assembly = SampleAssembly(stream, task.reader(True), task.fields, 0)
    assembly(BatchSlice(np.array([position]), 0, 0, True), memory)
    return dict(memory.arrays)


@pytest.mark.parametrize(("epoch_steps", "look"), [(100, LOOK), (3, 48)])
def test_the_first_samples_describe_it_and_are_learnt_from(epoch_steps: int, look: int) -> None:
    source = Once(point)
    task, stream = opened(source, epoch_steps=epoch_steps)
    assert source.taken == look
    first = [point(number) for number in range(look)]
    x, y = (np.stack(column) for column in zip(*first))
    same = UserDataset("(x, y)", dataset_of((x, y), "train"), "--train", Arrays.record_of)
    assert task.description == registry.of_data(task.run, same, None).description
    for position in (*range(look + 20), look + 5):
        sample, wanted = read(task, stream, position), point(position)
        standard = (wanted[0] - x.mean(axis=0)) / x.std(axis=0)
        assert np.allclose(sample["data"], standard, atol=1e-4) and sample["label"] == wanted[1]
    assert source.taken == look + 20


@pytest.mark.parametrize(
    ("target", "flags", "words"),
    [
        (lambda number: number % 3, "", "3 classes"),
        (lambda number: 2 * (number % 2), "", "1 number to predict"),  # there is no 1
        (lambda number: 2 * (number % 2), "--num-classes 4", "4 classes"),
        (lambda number: 2 * (number % 2), "--loss cross_entropy", "3 classes"),
        (lambda number: number % 3, "--loss l1", "1 number to predict"),
        (lambda number: number / 2, "", "1 number to predict"),
        (lambda number: [number, 1], "", "2 numbers to predict"),
    ],
)
def test_what_is_learnt_is_seen_or_said(target: Sample, flags: str, words: str) -> None:
    task, _ = opened(Once(lambda number: (np.ones(2), target(number))), flags, 3)
    assert task.summary().startswith(words)


def bad_at(position: int, bad: Any) -> Once:
    return Once(lambda number: bad if number == position else point(number))


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ((np.ones(3), 1), r"its data has the shape \(3,\)"),
        ((np.array([1, np.nan]), 1), "holds a number that is not finite"),
        ((np.ones(2), 3), "its label is 3, but there are 3 classes, numbered from 0"),
        ((np.ones(2), np.nan), "what is to be predicted is not finite"),
        (({"other": np.ones(2)}, 1), "it has no data, but other"),
    ],
)
def test_what_the_look_has_not_seen_is_named_with_its_number(bad: Any, words: str) -> None:
    task, stream = opened(bad_at(60, bad), epoch_steps=3)
    read(task, stream, 59)
    with pytest.raises(
        DataError,
        match=f"sample 60 of the stream: .*{words}.*; leave it out of the stream; .* its first 48 samples",
    ) as found:
        read(task, stream, 60)
    assert "--num-classes" in str(found.value)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ((np.ones((2, 2)), 1), "data has samples of shape"),
        ((np.ones(3), 1), "data varies in length"),
        ((np.array([1, np.nan]), 1), "sample 40.*not finite.*mend it or leave it out"),
        ((np.ones(2), np.nan), "sample 40.*not finite"),
        (({"other": np.ones(2)}, 1), "sample 40 has the arrays other"),
    ],
)
def test_what_is_wrong_in_the_look_is_refused(bad: Any, words: str) -> None:
    with pytest.raises((DataError, UsageError), match=words):
        opened(bad_at(40, bad), "--loss l2" if np.isnan(bad[1]) else "", epoch_steps=3)


def test_a_flag_of_classes_is_refused_where_numbers_come() -> None:
    with pytest.raises(UsageError, match="--num-classes is for classes"):
        opened(Once(lambda number: (np.ones(2), number / 3)), "--num-classes 3", 3)


def identity_of(sample: Sample, flags: str = "") -> InputIdentity:
    task, stream = opened(Once(sample), flags, 3)
    return InputIdentity.of_run(task.run, stream, None, task.description, task.score.name)


def test_another_stream_goes_on_as_what_it_was() -> None:
    before = identity_of(point)
    assert identity_of(point).going_on_from(before) == before == identity_of(point)
    other = identity_of(lambda number: point(number + 1))
    assert other.description != before.description
    assert other.going_on_from(before) == before
    late = identity_of(lambda number: point(number + (number == 47)))  # only the last one that was looked at
    assert late.training_set != before.training_set


def test_regression_looks_too() -> None:
    def picture(number: int) -> Any:
        return np.full((8, 8, 3), number % 256, np.uint8), (number, np.nan if number == 50 else 1)

    line = "--task regression --image-size 8 --val-resize 8 --batch-size 16 --epoch-steps 3"
    task, stream = opened_of(Once(picture), line)
    assert task.summary() == "2 numbers to predict (target0, target1)"
    assert task.description["targets"]["mean"] == [23.5, 1]
    assert read(task, stream, 49)["label"].tolist() == [[49, 1]]
    with pytest.raises(DataError, match="sample 50 of the stream: what is to be predicted is not finite"):
        read(task, stream, 50)
