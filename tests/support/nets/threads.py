"""What operators of our own compute with few threads and with many."""

from __future__ import annotations

import ctypes
from typing import Any, Callable, Sequence

import pytest

from mxtrain import native

needs_own_operators = pytest.mark.skipif(native.OPERATORS is None, reason="the part in C is not built")


def assert_same_bits_of_any_threads(compute: Callable[[], Sequence[Any]]) -> None:
    """Assert that `compute` returns arrays of the same bits, however many threads our operators have."""
    library, found = ctypes.CDLL(native.OPERATORS), []
    before = library.mxtrain_set_threads(1)
    try:
        for threads in (1, 2, 3, 16, 64):
            library.mxtrain_set_threads(threads)
            found.append([each.tobytes() for each in compute()])
    finally:
        library.mxtrain_set_threads(before)
    assert all(each == found[0] for each in found)
