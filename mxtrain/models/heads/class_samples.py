"""The classes of which a step computes the head, where it is not all: the classes of its samples, and others drawn.

Owns the draw, by (seed, step) alone: all workers have the same classes, and a run that resumes has them again; and the
way of the rows of such classes out of chunks, and of their gradients back.
"""

from __future__ import annotations

from typing import Sequence

import numpy as np

from mxtrain.data.fields import Array
from mxtrain.models.heads import chunked_head
from mxtrain.models.heads.chunked_head import Chunk, Pull

COUNTER = np.array([0, 0, 2, 0], np.uint64)  # the third word separates it from other draws by such keys


def step_classes(labels: Array, num_classes: int, num_taken: int, seed: int, step: int) -> Array:
    """Return the classes of a step, sorted: those of the `labels` of its whole batch, and others up to `num_taken`.

    Each class has a number drawn for the step, whatever the labels are; of the others those with the smallest are
    taken. There are more than `num_taken` where the labels have more.
    """
    own = np.unique(labels).astype(np.int64)
    num_taken = min(max(num_taken, len(own)), num_classes)
    keys = np.random.Philox(key=np.array([seed, step], np.uint64), counter=COUNTER).random_raw(num_classes)
    keys |= np.uint64(1)
    keys[own] = 0  # below all others'
    return np.flatnonzero(keys <= np.partition(keys, num_taken - 1)[num_taken - 1])


def gathered(classes: Array, lengths: Sequence[int], pull: Pull) -> Chunk:
    """Return the weights of these classes, sorted, out of chunks of so many; chunks without any are not pulled."""
    found: list[Chunk] = []
    for chunk, (first, length) in enumerate(zip(chunked_head.firsts(lengths), lengths)):
        rows = _rows_of(classes, first, length)
        if len(rows):
            weights, biases = pull(chunk)
            found.append(Chunk(weights[rows], None if biases is None else biases[rows]))
            del weights, biases  # before the next ones come
    all_biases = [each.biases for each in found if each.biases is not None]
    return Chunk(
        np.concatenate([each.weights for each in found]), np.concatenate(all_biases) if all_biases else None
    )


def scattered(values: Array, classes: Array, first: int, length: int) -> Array:
    """Return the rows of so many classes from `first` on: those of these classes have `values`, all others zeros."""
    rows = np.zeros((length, *values.shape[1:]), values.dtype)
    start = np.searchsorted(classes, first)
    local = _rows_of(classes, first, length)
    rows[local] = values[start : start + len(local)]
    return rows


def scattered_chunk(gradient: Chunk, classes: Array, first: int, length: int) -> Chunk:
    """Return the same of weights and biases."""
    biases = gradient.biases
    return Chunk(
        scattered(gradient.weights, classes, first, length),
        None if biases is None else scattered(biases, classes, first, length),
    )


def _rows_of(classes: Array, first: int, length: int) -> Array:
    """Return the places of those of the sorted classes that are among so many from `first` on."""
    start, end = np.searchsorted(classes, [first, first + length])
    return np.asarray(classes[start:end] - first)
