"""Arrays summed over all workers, in flat buckets, by the servers of a `dist_sync` store.

Owns how float32 arrays are laid into buckets, and how buckets travel. A key for every array would make resnet50 a
matter of 193 messages from 256 bytes to 9 megabytes: buckets of like size keep worker, network and server at work side
by side (benchmarks/comm).

Nothing here waits. MXNet's engine lays an array into its bucket when the array has been computed, sends the bucket
when it is full, and whoever reads a sum waits for it; so sums travel while a backward pass still runs.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Sequence

from mxtrain.kv.compress import ThreeLevels
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

    With a `threshold` they travel as what `compress.py` makes of them. All workers make the same buckets in the same
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
        # A net's layers may hold arrays in an order of their kernels, of which MXNet makes no views: those that are cut
        # are cut in copies.
        cut = {piece.array: piece.shape for pieces in layout for piece in pieces if not _is_whole(piece)}
        self.copies = {array: mx.nd.zeros(shape, ctx=context or mx.cpu()) for array, shape in cut.items()}
        # What ends with a barrier: no worker can push before the servers know every key. What comes back later is
        # always the answer to a push of one's own, and servers answer when all have pushed: none can run ahead.
        kv.init([bucket.key for bucket in self.buckets], [bucket.flat for bucket in self.buckets])
        self.codes = {}
        if threshold:
            for bucket in self.buckets:
                self.codes[bucket.key] = ThreeLevels(bucket.flat, kv.num_workers, threshold)
            kv.init([_in_code(key) for key in self.codes], [code.packed for code in self.codes.values()])

    def begin(self, arrays: Sequence[Any]) -> None:
        """Send `arrays` as they will be when all that computes them now is done."""
        given = self._to_be_cut(arrays)
        for bucket in self.buckets:
            bucket.fill(given)
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
            bucket.empty(self._cut(arrays))
        self._put_together(arrays)

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
        given = self._to_be_cut(arrays if self.kv.rank == 0 else [array.zeros_like() for array in arrays])
        for bucket in self.buckets:
            bucket.fill(given)
            self.kv.pushpull(bucket.key, bucket.flat)
            bucket.empty(self._cut(arrays))
        self._put_together(arrays)

    def _to_be_cut(self, arrays: Sequence[Any]) -> list[Any]:
        for place, copy in self.copies.items():
            arrays[place].copyto(copy)
        return self._cut(arrays)

    def _cut(self, arrays: Sequence[Any]) -> list[Any]:
        """With the copies in the place of those that are cut."""
        return [self.copies.get(place, array) for place, array in enumerate(arrays)]

    def _put_together(self, arrays: Sequence[Any]) -> None:
        for place, copy in self.copies.items():
            copy.copyto(arrays[place])


class Bucket:
    """A flat array, and pieces of other arrays in it."""

    def __init__(self, key: str, pieces: Sequence[Piece], context: Any):
        self.key, self.pieces = key, pieces
        self.flat = mx.nd.zeros((pieces[-1].offset + _size(pieces[-1]),), ctx=context)
        self.views = [self._view(piece) for piece in pieces]

    def fill(self, arrays: Sequence[Any]) -> None:
        for view, piece in zip(self.views, self.pieces):
            _part(arrays[piece.array], piece).copyto(view)

    def empty(self, arrays: Sequence[Any]) -> None:
        for view, piece in zip(self.views, self.pieces):
            view.copyto(_part(arrays[piece.array], piece))

    def _view(self, piece: Piece) -> Any:
        """The bucket's memory where the piece lies."""
        view = self.flat[piece.offset : piece.offset + _size(piece)]
        return view.reshape(piece.shape) if _is_whole(piece) else view


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


def _part(array: Any, piece: Piece) -> Any:
    return array if _is_whole(piece) else array.reshape(-1)[piece.start : piece.stop]


def _is_whole(piece: Piece) -> bool:
    return _size(piece) == math.prod(piece.shape)


def _size(piece: Piece) -> int:
    return piece.stop - piece.start


def _in_code(key: str) -> str:
    return f"{key}-in-code"
