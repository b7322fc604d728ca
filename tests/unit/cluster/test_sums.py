"""Sums over workers have the same bits whoever comes first."""

from __future__ import annotations

import itertools

import numpy as np

from mxtrain.cluster.sums import PendingSum

MINE = [np.array(values, "<f8") for values in ([1e16, 0.1], [1.0, 0.2], [-1e16, 0.3], [3.0, 0.4])]


def test_the_order_of_arrival_moves_no_bit() -> None:
    in_order = ((MINE[0] + MINE[1]) + MINE[2]) + MINE[3]
    sums = PendingSum(len(MINE))
    for index, arrival in enumerate(itertools.permutations(range(len(MINE)))):
        *before, total = [sums.add(rank, index, MINE[rank].tobytes()) for rank in arrival]
        assert before == [None] * 3 and total == in_order.tobytes(), arrival
