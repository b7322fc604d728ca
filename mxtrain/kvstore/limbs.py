"""Exact sums over workers of numbers with more digits than float32 has: in three parts, one after the other.

Owns cutting the totals of a bucket into parts that servers add exactly, and putting their sums together. Which buckets
need it, all workers know from flags that travel with the sums of a step (docs/adr/0020).
"""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from mxtrain.core.limbs import cut
from mxtrain.kvstore.buckets import Bucket, Buckets
from mxtrain.optim.grid import Grid, exact_bits

NUM_PARTS = 3  # of 24 bits less those of the number of workers: enough for the 53 of a total and 64 workers


def flags(buckets: Buckets, are_exact: Sequence[bool]) -> Any:
    """Return 1 for each bucket with an array whose sums on this worker are not exact in float32, and 0 for others."""
    return np.array(
        [float(not all(are_exact[each.array] for each in bucket.segments)) for bucket in buckets.buckets]
    )


def sum_again(buckets: Buckets, is_wide: Any, grid: Grid, arrays: Sequence[Any], num_workers: int) -> None:
    """Replace the arrays in the buckets that are flagged by the sums of all workers' totals, rounded once."""
    for bucket, has_flag in zip(buckets.buckets, is_wide):
        if has_flag:
            _sum_parts(buckets.kv, bucket, grid, exact_bits(num_workers))
            bucket.copy_out(arrays, buckets.views)


def _sum_parts(kv: Any, bucket: Bucket, grid: Grid, num_bits: int) -> None:
    of_segments = [grid.totals[each.array][each.start : each.stop] for each in bucket.segments]
    totals = np.concatenate(of_segments).astype(np.float64)
    units = np.concatenate([grid.units(each.array)[each.start : each.stop] for each in bucket.segments])
    of_parts = [units * 2.0 ** (num_bits * number) for number in reversed(range(NUM_PARTS))]
    total = np.zeros_like(totals)
    with np.errstate(invalid="ignore", over="ignore"):
        for part in cut(totals, of_parts):
            bucket.flat[:] = part.astype(np.float32)
            kv.pushpull(bucket.key, bucket.flat)
            total += bucket.flat.asnumpy()
        bucket.flat[:] = total.astype(np.float32)
