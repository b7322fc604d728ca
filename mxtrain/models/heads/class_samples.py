"""The classes of which a step computes the head, where it is not all: the classes of its samples, and others drawn.

Owns the draw, by (seed, step) alone: all workers have the same classes, and a run that resumes has them again.
"""

from __future__ import annotations

import numpy as np

from mxtrain.data.fields import Array

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
