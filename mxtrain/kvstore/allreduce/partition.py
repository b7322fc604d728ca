"""The division of flat arrays: among those who add them, and into what is added at a time."""

from __future__ import annotations

from typing import Iterator

from mxtrain.data.fields import Array

ALIGNMENT = 16  # elements of a cache line, which two workers would fight for
PIECE = 1 << 20  # elements that are summed before the next ones, the same on all hosts
SMALL = 4096  # elements; in an array of no more all add all, which takes one message instead of two


def owned(size: int, owner: int, num_owners: int) -> slice:
    """Return the elements that the owner of this number adds; of a small array perhaps none."""
    step = -(-size // (num_owners * ALIGNMENT)) * ALIGNMENT
    return slice(min(owner * step, size), min((owner + 1) * step, size))


def chunks(numbers: Array, length: int) -> Iterator[Array]:
    """Yield views of up to `length` numbers, in order."""
    for start in range(0, len(numbers), length):
        yield numbers[start : start + length]
