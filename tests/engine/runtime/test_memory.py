"""The numbers of arrays where they lie: they are right, no copy, and stay when nothing else knows the array."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from mxtrain.runtime import memory, mx


def test_numbers_of_an_array_in_memory_are_no_copy_and_outlive_it() -> None:
    array = mx.nd.arange(1 << 20).reshape((1 << 10, -1))
    numbers = memory.numbers(array)
    array[3] = -1
    array.wait_to_read()
    assert (numbers[3] == -1).all()
    del array
    gc.collect()
    mx.nd.full((1 << 10, 1 << 10), 7.0).wait_to_read()  # takes the memory, were it free
    mx.nd.waitall()
    expected = np.arange(1 << 20, dtype=np.float32).reshape(1 << 10, -1)
    expected[3] = -1
    np.testing.assert_array_equal(numbers, expected)


@pytest.mark.parametrize(
    "array",
    [
        lambda: mx.nd.arange(12).reshape((3, 4))[1:],
        lambda: mx.nd.arange(12, dtype="int32"),
        lambda: mx.nd.arange(12).astype("float16"),
        lambda: mx.nd.Convolution(
            mx.nd.ones((2, 16, 8, 8)), mx.nd.ones((16, 16, 3, 3)), no_bias=True, kernel=(3, 3), num_filter=16
        ),
    ],
    ids=["a view", "whole numbers", "float16", "in oneDNN's order"],
)
def test_numbers_are_those_of_asnumpy(array) -> None:
    found = array()
    np.testing.assert_array_equal(memory.numbers(found), found.asnumpy())
    assert memory.numbers(found).dtype == found.dtype and memory.numbers(found).shape == found.shape
