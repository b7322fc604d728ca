"""Streams of samples that a user might give to --train: the majority of words, as `majority.py` learns it."""

import itertools
import os
import time

import numpy as np

from tests.support.user_code.majority import WORDS


def sample(number, begin=0):
    rng = np.random.default_rng([begin, number])
    words = rng.integers(1, WORDS, rng.integers(1, 24)).astype(np.uint8)
    words[rng.random(len(words)) < 0.5] = rng.integers(1, 3)
    ahead = int((words == 2).sum()) - int((words == 1).sum())
    if not ahead:
        words, ahead = np.append(words, np.uint8(2)), 1
    return words, float(ahead > 0)


def endless():
    """A generator function."""
    return map(sample, itertools.count())


class Iterable:
    """An iterable, which can be begun again."""

    def __iter__(self):
        return endless()


def iterable():
    return Iterable()


def socket():
    """What cannot be begun again, and is another each time."""
    begin = time.time_ns()
    return (sample(number, begin) for number in itertools.count())


def of_each_worker():
    """What is not the same on each worker."""
    begin = len(os.environ.get("MXTRAIN_NODE", "")) + ord(os.environ.get("MXTRAIN_NODE", "0")[-1])
    return (sample(number, begin) for number in itertools.count())


def short():
    return map(sample, range(40))


def failing():
    yield from map(sample, range(40))
    raise ZeroDivisionError("the source broke")


def damaged():
    yield from map(sample, range(40))
    yield np.array([77], np.uint8), 0.0


def pairs_no_more():
    yield from map(sample, range(40))
    yield "hello"


def pictures():
    """For classification: a label out of range after a while."""
    rng = np.random.default_rng(0)
    for number in itertools.count():
        yield rng.integers(0, 255, (16, 16, 3)).astype(np.uint8), number % 3 if number < 40 else 3


def not_finite():
    """For classification, of which nothing is finite from some sample on."""
    yield from map(sample, range(40))
    while True:
        yield np.array([1, 2, 2], np.uint8), 1.0


def vector(number, begin=0):
    """An array far from 0 in two units, and which of three rings it is on."""
    rng = np.random.default_rng([begin, number])
    ring, angle = number % 3, 2 * np.pi * rng.random()
    x = (ring + 1 + 0.1 * rng.normal()) * np.array([np.cos(angle), np.sin(angle)])
    return x * [1000, 1] + [1e5, 0], ring


def vectors():
    return map(vector, itertools.count())


def other_vectors():
    """What cannot be begun again, and is another each time."""
    begin = time.time_ns()
    return (vector(number, begin) for number in itertools.count())


def vectors_of_each_worker():
    begin = ord(os.environ.get("MXTRAIN_NODE", "0")[-1])
    return (vector(number, begin) for number in itertools.count())
