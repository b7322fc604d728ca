"""Arrays summed over all workers in flat buckets, by the servers of a `dist_sync` store or by the workers themselves.

Owns the layout of float32 arrays in buckets and how buckets are sent. Does not own the connection (`store.py`) or
compression (`compression.py`). With a key for each array, resnet50 would be 193 messages from 256 bytes to 9
megabytes; buckets of similar size keep worker, network and servers busy at the same time (benchmarks/comm). A server
adds in order of arrival, so with three workers or more the last bits of a sum are reproducible only where nothing is
rounded, as on a grid (`optim/sums/grid.py`, `limbs.py`).

Nothing here waits but for sums without servers. MXNet's engine sends a bucket once everything computed into it is
there, and a reader of a sum waits for it; so buckets travel while a backward pass still runs. Arrays that are computed
in a bucket's memory, in its `views`, are never copied.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple, Sequence

from mxtrain.kvstore.compression import TernaryCompressor
from mxtrain.kvstore.store import new_arrays, push_sums, tables_of, wait_for
from mxtrain.optim.sums.block_tables import Blocks, Rounding, blocks_of
from mxtrain.optim.sums.grid import BLOCK, Grid, num_blocks
from mxtrain.runtime import mx
from mxtrain.runtime.types import Device, NDArray, SummingStore

BYTES_OF_FLOAT, BUCKET_MB = 4, 4.0
SPLIT_FACTOR = (
    4  # an array larger than this many buckets is split; below that an overfull bucket beats the copies
)


class Segment(NamedTuple):
    """Elements `start` to `stop` of array number `array`, which has `shape`, and their offset in a bucket."""

    array: int
    shape: tuple[int, ...]
    start: int
    stop: int
    offset: int


class Buckets:
    """Sums of arrays of `shapes`, laid out from the last to the first, the order of a backward pass.

    With a `threshold` they are compressed. All workers make the same buckets in the same order; `name` tells the keys
    of several sets of buckets apart. `views` are arrays of `shapes` in the buckets' memory.
    """

    def __init__(
        self,
        kv: SummingStore,
        shapes: Sequence[tuple[int, ...]],
        bucket_mb: float = BUCKET_MB,
        threshold: float = 0.0,
        name: str = "gradients",
        context: Device | None = None,
    ):
        self.kv = kv
        layout = lay_out(shapes, int(bucket_mb * 1e6 / BYTES_OF_FLOAT))
        keys = [f"{name}-{number}" for number in range(len(layout))]
        sizes = [segments[-1].offset + _size(segments[-1]) for segments in layout]
        # Ends with a barrier, so no worker pushes before the servers know every key. Each later pull answers a push by
        # the same worker, and servers answer when all workers have pushed: none can run ahead.
        blocks = [_blocks(segments, shapes) for segments in layout]
        flats = new_arrays(kv, keys, sizes, context or mx.cpu(), [each.lengths for each in blocks])
        self._numbers_of_blocks = [each.numbers for each in blocks]
        self.buckets = [*map(Bucket, keys, layout, flats)]
        self.views = _views(shapes, self.buckets, context or mx.cpu())
        self.is_rounded = False  # to bfloat16, between hosts
        self.compressors = {}
        if threshold:
            for bucket in self.buckets:
                self.compressors[bucket.key] = TernaryCompressor(bucket.flat, kv.num_workers, threshold)
            kv.init(
                [_compressed_key(key) for key in self.compressors],
                [compressor.packed for compressor in self.compressors.values()],
            )

    def start_allreduce(self, arrays: Sequence[NDArray]) -> None:
        """Send `arrays` as they will be once all pending computation of them is done; `views` are not copied."""
        for bucket in self.buckets:
            bucket.copy_in(arrays, self.views)
            compressor = self.compressors.get(bucket.key)
            if compressor is None:
                push_sums(self.kv, bucket.key, bucket.flat, self.is_rounded)
            else:
                compressor.compress()
                self.kv.pushpull(_compressed_key(bucket.key), compressor.packed)

    def finish_allreduce(self, arrays: Sequence[NDArray]) -> None:
        """Replace `arrays` by the sums over all workers of what `start_allreduce` sent."""
        for bucket in self.buckets:
            is_compressed = bucket.key in self.compressors
            wait_for(self.kv, _compressed_key(bucket.key) if is_compressed else bucket.key)
            if is_compressed:
                self.compressors[bucket.key].decompress()
            bucket.copy_out(arrays, self.views)

    def wait(self) -> None:
        """Wait until the sums are where the arrays were."""
        for bucket in self.buckets:
            bucket.flat.wait_to_read()

    def rounding(self, grid: Grid) -> Rounding | None:
        """Return what has the store round these arrays to their `grid` while it adds them; None where it cannot."""
        tables = tables_of(self.kv, [bucket.key for bucket in self.buckets])
        if tables is None or self.compressors or self.is_rounded:
            return None
        return Rounding(grid, tables, self._numbers_of_blocks)

    def restore_residuals(self) -> None:
        """Restore the residuals from before the last `start_allreduce`, because its sums are not applied."""
        for compressor in self.compressors.values():
            compressor.restore_residual()

    def drop_residuals(self) -> None:
        """Set all residuals to zero, as at the start of a run: what they held is never sent."""
        for compressor in self.compressors.values():
            compressor.drop_residual()

    def broadcast(self, arrays: Sequence[NDArray]) -> None:
        """Replace `arrays` on all workers by those of the store's first worker."""
        sent = arrays if self.kv.rank == 0 else [array.zeros_like() for array in arrays]
        for bucket in self.buckets:
            bucket.copy_in(sent, self.views)
            self.kv.pushpull(bucket.key, bucket.flat)
            wait_for(self.kv, bucket.key)
            bucket.copy_out(arrays, self.views)


class Bucket:
    """A flat array under one key, and the segments of other arrays that it holds."""

    def __init__(self, key: str, segments: Sequence[Segment], flat: NDArray):
        self.key, self.segments, self.flat = key, segments, flat

    def copy_in(self, arrays: Sequence[NDArray], views: Sequence[NDArray]) -> None:
        """Copy the arrays' segments into the bucket, where they are not computed there."""
        for segment in self.segments:
            array, view = arrays[segment.array], views[segment.array]
            if array is not view and segment.start == 0:
                array.copyto(view)
            if not _is_whole(segment):
                view.reshape(-1)[segment.start : segment.stop].copyto(self.flat)

    def copy_out(self, arrays: Sequence[NDArray], views: Sequence[NDArray]) -> None:
        """Copy the bucket's segments back into the arrays."""
        for segment in self.segments:
            array, view = arrays[segment.array], views[segment.array]
            if not _is_whole(segment):
                self.flat.copyto(view.reshape(-1)[segment.start : segment.stop])
            if array is not view and segment.stop == view.size:
                view.copyto(array)


def _views(shapes: Sequence[tuple[int, ...]], buckets: Sequence[Bucket], context: Device) -> list[NDArray]:
    """Return for each of `shapes` an array in its bucket's memory, or with memory of its own if it is split.

    MXNet reorders the elements of an array for oneDNN's layers as it likes, but not those of a view.
    """
    views: list[Any] = [None] * len(shapes)
    for bucket in buckets:
        for segment in bucket.segments:
            if _is_whole(segment):
                memory = bucket.flat[segment.offset : segment.offset + _size(segment)]
            elif segment.start == 0:
                memory = mx.nd.zeros((math.prod(segment.shape),), ctx=context)
            else:
                continue
            views[segment.array] = memory.reshape(segment.shape)
    return views


def lay_out(shapes: Sequence[tuple[int, ...]], max_elements: int) -> list[list[Segment]]:
    """Return the segments of each bucket: arrays end to end, the last one first.

    A bucket is closed once it has `max_elements` or more. A much larger array is split into buckets of its own.
    """
    buckets: list[list[Segment]] = [[]]
    for array, shape in reversed(list(enumerate(shapes))):
        size = math.prod(shape)
        if is_split(size, max_elements):
            length = _length_of_parts(size, max_elements)
            parts = [
                Segment(array, tuple(shape), start, min(start + length, size), 0)
                for start in range(0, size, length)
            ]
            buckets[-1:] = [*filter(None, buckets[-1:]), *([part] for part in parts), []]
            continue
        offset = buckets[-1][-1].offset + _size(buckets[-1][-1]) if buckets[-1] else 0
        buckets[-1].append(Segment(array, tuple(shape), 0, size, offset))
        if offset + size >= max_elements:
            buckets.append([])
    return [bucket for bucket in buckets if bucket]


def _length_of_parts(size: int, max_elements: int) -> int:
    """Return how many elements each bucket of a split array has: whole blocks, but of buckets smaller than one."""
    most = max_elements // BLOCK * BLOCK or max_elements
    length = math.ceil(size / math.ceil(size / most))
    return min(math.ceil(length / BLOCK) * BLOCK, most)


def _blocks(segments: Sequence[Segment], shapes: Sequence[tuple[int, ...]]) -> Blocks:
    """Return the blocks of a bucket, by their numbers among those of all arrays."""
    ends = list(itertools.accumulate((num_blocks(math.prod(shape)) for shape in shapes), initial=0))
    return blocks_of([(ends[each.array] + each.start // BLOCK, _size(each)) for each in segments])


def is_split(size: int, max_elements: int = int(BUCKET_MB * 1e6 / BYTES_OF_FLOAT)) -> bool:
    """Return whether an array of `size` numbers is copied to several buckets, and not computed in one."""
    return size > SPLIT_FACTOR * max_elements


def _is_whole(segment: Segment) -> bool:
    return _size(segment) == math.prod(segment.shape)


def _size(segment: Segment) -> int:
    return segment.stop - segment.start


def _compressed_key(key: str) -> str:
    return f"{key}-compressed"
