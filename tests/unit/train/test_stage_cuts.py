"""Cuts into stages: the slowest one is as fast as can be, and of such cuts the largest one is small."""

from __future__ import annotations

import itertools
import random

import pytest

from mxtrain.train.staged import cuts


def test_the_slowest_stage_is_as_fast_as_can_be() -> None:
    assert cuts.best_ends([1, 1, 1, 3], [1] * 4, 2) == [3]
    assert cuts.best_ends([3, 1, 1, 1], [1] * 4, 2) == [1]
    assert cuts.best_ends([1, 2, 3], [1] * 3, 3) == [1, 2]


def test_of_cuts_that_are_as_fast_that_with_the_smallest_stage() -> None:
    assert cuts.best_ends([10, 0, 10], [5, 9, 1], 2) == [1]
    assert cuts.best_ends([10, 0, 10], [1, 9, 5], 2) == [2]


@pytest.mark.parametrize("seed", range(20))
def test_no_other_cut_is_better(seed: int) -> None:
    rng = random.Random(seed)
    num_parts = rng.randint(3, 9)
    num_stages = rng.randint(2, min(4, num_parts))
    seconds = [rng.random() for _ in range(num_parts)]
    sizes = [rng.randint(0, 100) for _ in range(num_parts)]

    def largest(ends: tuple[int, ...], numbers: list[float]) -> float:
        return max(sum(numbers[start:end]) for start, end in cuts.spans(ends, num_parts))

    every = list(itertools.combinations(range(1, num_parts), num_stages - 1))
    fastest = min(largest(ends, seconds) for ends in every)
    good = [ends for ends in every if largest(ends, seconds) <= cuts.SLACK * fastest]
    found = tuple(cuts.best_ends(seconds, sizes, num_stages))
    assert found in good
    assert largest(found, list(sizes)) == min(largest(ends, list(sizes)) for ends in good)
