"""Arrays summed over all workers, in flat buckets, by the servers of a `dist_sync` store.

Owns how float32 arrays are laid into buckets, and how buckets travel. A key for every array would make resnet50 a
matter of 193 messages from 256 bytes to 9 megabytes: buckets of like size keep worker, network and server at work side
by side (benchmarks/comm). A server adds what comes in order of arrival: with three workers and more a sum's last bits
are left to chance.

Nothing here waits. MXNet's engine sends a bucket when all that is computed into it is there, and whoever reads a sum
waits for it; so sums travel while a backward pass still runs. Arrays that are computed where they travel, in a bucket's
`homes`, are never copied.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Sequence

from mxtrain.kvstore.compression import ThreeLevels
from mxtrain.runtime import mx

BYTES_OF_FLOAT = 4
TOO_LARGE = 4  # times a bucket: below it a bucket that is too full costs less than a copy to cut from


class Piece(NamedTuple):
    """Elements `start` to `stop` of an array of `shape`, and where in a bucket they lie."""

    array: int
    shape: tuple[int, ...]
    start: int
    stop: int
    offset: int


class Buckets:
    """Sums of arrays of `shapes`, laid from the last to the first: so a backward pass computes gradients.

    With a `threshold` they travel as what `compression.py` makes of them. All workers make the same buckets in the same
    order, and give each a name of its own.
    """

    def __init__(
        self,
        kv: Any,
        shapes: Sequence[tuple[int, ...]],
        bucket_mb: float = 4,
        threshold: float = 0.0,
        name: str = "gradients",
        context: Any = None,
    ):
        self.kv = kv
        layout = lay(shapes, int(bucket_mb * 1e6 / BYTES_OF_FLOAT))
        self.buckets = [
            Bucket(f"{name}-{number}", pieces, context or mx.cpu()) for number, pieces in enumerate(layout)
        ]
        self.homes = _homes(shapes, self.buckets, context or mx.cpu())
        # What ends with a barrier: no worker can push before the servers know every key. What comes back later is
        # always the answer to a push of one's own, and servers answer when all have pushed: none can run ahead.
        kv.init([bucket.key for bucket in self.buckets], [bucket.flat for bucket in self.buckets])
        self.codes = {}
        if threshold:
            for bucket in self.buckets:
                self.codes[bucket.key] = ThreeLevels(bucket.flat, kv.num_workers, threshold)
            kv.init([_in_code(key) for key in self.codes], [code.packed for code in self.codes.values()])

    def begin(self, arrays: Sequence[Any]) -> None:
        """Send `arrays` as they will be when all that computes them now is done; none of `homes` is copied."""
        for bucket in self.buckets:
            bucket.fill(arrays, self.homes)
            code = self.codes.get(bucket.key)
            if code is None:
                self.kv.pushpull(bucket.key, bucket.flat)
            else:
                code.pack()
                self.kv.pushpull(_in_code(bucket.key), code.packed)

    def finish(self, arrays: Sequence[Any]) -> None:
        """Let `arrays` be the sums over all workers of what was sent."""
        for bucket in self.buckets:
            if bucket.key in self.codes:
                self.codes[bucket.key].unpack()
            bucket.empty(arrays, self.homes)

    def undo(self) -> None:
        """What was sent last is not applied anywhere, so it left nothing that later steps have to make up for."""
        for code in self.codes.values():
            code.undo()

    def forget(self) -> None:
        """Begin as at the start: what has not been sent yet never will be."""
        for code in self.codes.values():
            code.forget()

    def broadcast(self, arrays: Sequence[Any]) -> None:
        """Let `arrays` be on all workers what they are on the store's first."""
        given = arrays if self.kv.rank == 0 else [array.zeros_like() for array in arrays]
        for bucket in self.buckets:
            bucket.fill(given, self.homes)
            self.kv.pushpull(bucket.key, bucket.flat)
            bucket.empty(arrays, self.homes)


class Bucket:
    """A flat array, and the pieces of other arrays that it holds."""

    def __init__(self, key: str, pieces: Sequence[Piece], context: Any):
        self.key, self.pieces = key, pieces
        self.flat = mx.nd.zeros((pieces[-1].offset + _size(pieces[-1]),), ctx=context)

    def fill(self, arrays: Sequence[Any], homes: Sequence[Any]) -> None:
        for piece in self.pieces:
            array, home = arrays[piece.array], homes[piece.array]
            if array is not home and piece.start == 0:
                array.copyto(home)
            if not _is_whole(piece):
                home.reshape(-1)[piece.start : piece.stop].copyto(self.flat)

    def empty(self, arrays: Sequence[Any], homes: Sequence[Any]) -> None:
        for piece in self.pieces:
            array, home = arrays[piece.array], homes[piece.array]
            if not _is_whole(piece):
                self.flat.copyto(home.reshape(-1)[piece.start : piece.stop])
            if array is not home and piece.stop == home.size:
                home.copyto(array)


def _homes(shapes: Sequence[tuple[int, ...]], buckets: Sequence[Bucket], context: Any) -> list[Any]:
    """For each of `shapes` an array in its bucket's memory, or in memory of its own where it is cut.

    Each is a view, whose elements MXNet's layers cannot put in an order of their own as they do in other arrays.
    """
    homes = [None] * len(shapes)
    for bucket in buckets:
        for piece in bucket.pieces:
            if _is_whole(piece):
                memory = bucket.flat[piece.offset : piece.offset + _size(piece)]
            elif piece.start == 0:
                memory = mx.nd.zeros((math.prod(piece.shape),), ctx=context)
            else:
                continue
            homes[piece.array] = memory.reshape(piece.shape)
    return homes


def lay(shapes: Sequence[tuple[int, ...]], most: int) -> list[list[Piece]]:
    """Arrays end to end, the last one first, in buckets that are closed once they have `most` elements.

    An array of many times as much is cut into buckets of its own.
    """
    buckets: list[list[Piece]] = [[]]
    for array, shape in reversed(list(enumerate(shapes))):
        size = math.prod(shape)
        if size > TOO_LARGE * most:
            part = math.ceil(size / math.ceil(size / most))
            cuts = [Piece(array, tuple(shape), at, min(at + part, size), 0) for at in range(0, size, part)]
            buckets[-1:] = [*filter(None, buckets[-1:]), *([cut] for cut in cuts), []]
            continue
        offset = buckets[-1][-1].offset + _size(buckets[-1][-1]) if buckets[-1] else 0
        buckets[-1].append(Piece(array, tuple(shape), 0, size, offset))
        if offset + size >= most:
            buckets.append([])
    return [bucket for bucket in buckets if bucket]


def _is_whole(piece: Piece) -> bool:
    return _size(piece) == math.prod(piece.shape)


def _size(piece: Piece) -> int:
    return piece.stop - piece.start


def _in_code(key: str) -> str:
    return f"{key}-in-code"
