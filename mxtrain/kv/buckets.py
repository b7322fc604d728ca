"""Arrays summed over all workers, in flat buckets, by the servers of a `dist_sync` store.

Owns how float32 arrays are laid into buckets, and how buckets travel. A key for every array would make resnet50 a
matter of 193 messages from 256 bytes to 9 megabytes: buckets of one size keep worker, network and server at work side
by side (benchmarks/comm).

Nothing here waits. MXNet's engine lays an array into its bucket when the array has been computed, sends the bucket
when it is full, and whoever reads a sum waits for it; so sums travel while a backward pass still runs.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, Iterator, NamedTuple, Sequence

from mxtrain.runtime import mx

BYTES_OF_FLOAT = 4


class Piece(NamedTuple):
    """Elements `start` to `stop` of an array, and where in a bucket they lie."""

    array: int
    start: int
    stop: int
    offset: int


class Buckets:
    """Sums of arrays of `shapes`; those that are computed last come first, as gradients do in a backward pass.

    All workers make the same ones, in the same order, each with a name of its own.
    """

    def __init__(
        self,
        kv: Any,
        shapes: Sequence[tuple[int, ...]],
        bucket_mb: float = 4,
        name: str = "gradients",
        context: Any = None,
    ):
        self.kv = kv
        self.shapes = [tuple(shape) for shape in shapes]
        sizes = [math.prod(shape) for shape in self.shapes]
        self.layout = lay(sizes, int(bucket_mb * 1e6 / BYTES_OF_FLOAT))
        self.flats = [
            mx.nd.zeros((sum(piece.stop - piece.start for piece in pieces),), ctx=context or mx.cpu())
            for pieces in self.layout
        ]
        self.views = [
            [self._view(flat, piece) for piece in pieces] for flat, pieces in zip(self.flats, self.layout)
        ]
        self.keys = [f"{name}-{number}" for number in range(len(self.flats))]
        # Ends with a barrier: no worker can push before a server knows every key. What is pulled later is always
        # the answer to a push of one's own, and servers answer when all have pushed: none can run ahead.
        kv.init(self.keys, self.flats)

    def begin(self, arrays: Sequence[Any]) -> None:
        """Send `arrays` as they will be when all that computes them now is done."""
        for flat, key, views, pieces in zip(self.flats, self.keys, self.views, self.layout):
            for view, piece in zip(views, pieces):
                self._part(arrays[piece.array], piece).copyto(view)
            self.kv.pushpull(key, flat)

    def finish(self, arrays: Sequence[Any]) -> None:
        """Let `arrays` be the sums over all workers of what was sent."""
        for views, pieces in zip(self.views, self.layout):
            for view, piece in zip(views, pieces):
                view.copyto(self._part(arrays[piece.array], piece))

    def broadcast(self, arrays: Sequence[Any]) -> None:
        """Let `arrays` be on all workers what they are on the store's first."""
        self.begin(arrays if self.kv.rank == 0 else [array.zeros_like() for array in arrays])
        self.finish(arrays)

    def _view(self, flat: Any, piece: Piece) -> Any:
        """A bucket's memory as the piece that it holds."""
        view = flat[piece.offset : piece.offset + piece.stop - piece.start]
        return view.reshape(self.shapes[piece.array]) if self._is_whole(piece) else view

    def _part(self, array: Any, piece: Piece) -> Any:
        return array if self._is_whole(piece) else array.reshape(-1)[piece.start : piece.stop]

    def _is_whole(self, piece: Piece) -> bool:
        return piece.stop - piece.start == math.prod(self.shapes[piece.array])


def lay(sizes: Sequence[int], most: int) -> list[list[Piece]]:
    """Arrays of so many elements end to end, the last one first, cut into buckets of equal size."""
    total = sum(sizes)
    size = math.ceil(total / math.ceil(total / most))
    buckets = itertools.groupby(_pieces(sizes, size), key=lambda bucket_and_piece: bucket_and_piece[0])
    return [[piece for _, piece in pieces] for _, pieces in buckets]


def _pieces(sizes: Sequence[int], size: int) -> Iterator[tuple[int, Piece]]:
    """With the number of each one's bucket."""
    begin = 0
    for array in reversed(range(len(sizes))):
        end = begin + sizes[array]
        for bucket in range(begin // size, math.ceil(end / size)):
            start, stop = max(begin, bucket * size), min(end, (bucket + 1) * size)
            yield bucket, Piece(array, start - begin, stop - begin, start - bucket * size)
        begin = end
