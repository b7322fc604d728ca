"""The stream from inputs to answers: in order, read ahead by so many and no more, and answered when nothing comes."""

from __future__ import annotations

import functools
from typing import Any, Iterator

import numpy as np
import pytest

from mxtrain import config, runtime
from mxtrain.core.errors import DataError

runtime.load()

from mxtrain.inference import batching  # noqa: E402
from mxtrain.inference.input_samples import Input  # noqa: E402
from mxtrain.tasks.classification import Classification  # noqa: E402

MICRO_BATCH = 4
FLAGS = "--train none --image-size 8 --batch-size 8 --micro-batch 4 --num-classes 2"
RUN = config.parse(FLAGS.split())
TASK = Classification.numbered(RUN, 2)


def read(number: int) -> dict[str, Any]:
    if number < 0:
        raise DataError(f"{number} is none")
    return {"data": np.full((3, 8, 8), number, np.float32)}


def given(*numbers: int | None) -> Iterator[Input | None]:
    return (None if each is None else Input(str(each), functools.partial(read, each)) for each in numbers)


class Noting:
    """A function of micro-batches that answers with the number in each sample, and notes how many came together."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def __call__(self, arrays: dict[str, Any]) -> list[float]:
        self.sizes.append(len(arrays["data"]))
        return [float(each[0, 0, 0]) for each in arrays["data"]]


@pytest.mark.parametrize(
    ("numbers", "sizes"),
    [
        (range(10), [4, 4, 2]),
        ([0, -1, 1, 2, -2, 3, 4, -3], [4, 1]),  # a micro-batch is filled up with the next good ones
        ([0, None, 1, 2, None, None, 3], [1, 2, 1]),  # what is there is answered
        ([-1, -2], []),
        ([None], []),
        ([0, *range(-40, 0), 1], [1, 1]),  # nor does it wait behind many that are none
    ],
)
def test_answers_come_in_the_order_of_inputs(numbers: Any, sizes: list[int]) -> None:
    compute = Noting()
    found = list(batching.predict_batches(TASK, compute, given(*numbers)))
    expected = [each for each in numbers if each is not None]
    assert [each.name for each, _ in found] == list(map(str, expected))
    for number, (_, told) in zip(expected, found):
        assert told == number if number >= 0 else str(told) == f"{number} is none"
    assert compute.sizes == sizes


def test_no_more_is_read_ahead_than_two_micro_batches() -> None:
    num_taken = 0

    def counted() -> Iterator[Input | None]:
        nonlocal num_taken
        for each in given(*range(1000)):
            num_taken += 1
            yield each

    told = batching.predict_batches(TASK, Noting(), counted())
    for number, _ in enumerate(told):
        assert num_taken <= number + 1 + 3 * MICRO_BATCH + 1
        if number == 100:
            break
    told.close()  # type: ignore[attr-defined]
    assert num_taken < 120


def test_an_exception_of_the_net_ends_it() -> None:
    def fail(arrays: dict[str, Any]) -> list[float]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(batching.predict_batches(TASK, fail, given(*range(100))))
