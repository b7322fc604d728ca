"""Buckets over real servers: what comes back is the sum, on any cluster, however its processes interleave."""

from __future__ import annotations

import itertools
import sys

import pytest

from benchmarks.comm import processes
from mxtrain.kvstore.buckets import TOO_LARGE, Piece, lay

SUMMING = [sys.executable, "-m", "tests.support.summing_worker"]
pytestmark = pytest.mark.timeout(300)
CLUSTERS = list(itertools.product((1, 2, 3, 4), (1, 2)))  # workers, servers


@pytest.mark.parametrize(
    "num_workers, num_servers",
    [
        pytest.param(*cluster, marks=[] if cluster in [(2, 1), (3, 2)] else pytest.mark.slow)
        for cluster in CLUSTERS
    ],
)
def test_sums_are_exact_and_travel_early(num_workers: int, num_servers: int) -> None:
    with processes.with_servers([*SUMMING, 50], num_workers, num_servers) as group:
        group.end()


@pytest.mark.slow
@pytest.mark.parametrize("attempt", range(20))
def test_no_first_step_takes_weights_for_gradients(attempt: int) -> None:
    """Stock MXNet's race at the start: 4 of 8 jobs went wrong."""
    with processes.with_servers([*SUMMING, 3], 2, 1 + attempt % 2) as group:
        group.end()


@pytest.mark.parametrize("sizes", [[1], [7, 1, 5], [100], [40, 40, 40, 1], [3] * 50, [2, 100, 3]])
@pytest.mark.parametrize("most", [1, 4, 9, 1000])
def test_every_element_has_one_place(sizes: list[int], most: int) -> None:
    buckets = lay([(size,) for size in sizes], most)
    elements = [
        (piece.array, number)
        for pieces in buckets
        for piece in pieces
        for number in range(piece.start, piece.stop)
    ]
    assert elements == [
        (array, number) for array in reversed(range(len(sizes))) for number in range(sizes[array])
    ]
    for pieces in buckets:
        ends = [piece.offset + piece.stop - piece.start for piece in pieces]
        assert [piece.offset for piece in pieces] == [0, *ends[:-1]]
        whole = all(piece.stop - piece.start == sizes[piece.array] for piece in pieces)
        if whole:
            assert (
                pieces is buckets[-1] or ends[-1] >= most or is_cut(buckets[buckets.index(pieces) + 1], sizes)
            )
            assert len(ends) == 1 or ends[-2] < most, "closed once it is full"
            assert max(sizes[piece.array] for piece in pieces) <= TOO_LARGE * most
        else:
            assert len(pieces) == 1 and ends[-1] <= most and sizes[pieces[0].array] > TOO_LARGE * most


def is_cut(pieces: list[Piece], sizes: list[int]) -> bool:
    return any(piece.stop - piece.start < sizes[piece.array] for piece in pieces)
