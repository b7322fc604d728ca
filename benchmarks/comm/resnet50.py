"""The shapes of resnet50_v1's 193 gradients, 102 MB, in the order of its parameters; without any framework."""

from __future__ import annotations

from typing import Iterator, Tuple

Shape = Tuple[int, ...]
STAGES = ((3, 256), (4, 512), (6, 1024), (3, 2048))


def shapes() -> list[Shape]:
    return list(_shapes())


def _shapes() -> Iterator[Shape]:
    yield from _convolution(64, 3, 7)
    channels = 64
    for num_blocks, wide in STAGES:
        narrow = wide // 4
        for block in range(num_blocks):
            yield from _convolution(narrow, channels, 1, bias=True)
            yield from _convolution(narrow, narrow, 3)
            yield from _convolution(wide, narrow, 1, bias=True)
            if block == 0:
                yield from _convolution(wide, channels, 1)
            channels = wide
    yield from ((1000, channels), (1000,))


def _convolution(out: int, into: int, width: int, bias: bool = False) -> Iterator[Shape]:
    """Yield the shapes of a convolution and the batch normalisation after it."""
    yield (out, into, width, width)
    for _ in range(2 + bias):
        yield (out,)
