"""Whole pictures with their own sizes, for tasks that tell where in a picture something is."""

from __future__ import annotations

from typing import Any, Callable, TypeVar

import numpy as np

from mxtrain.data.decode import decoding
from mxtrain.data.decode.jpeg import BadPicture, Box, Pixels
from mxtrain.data.fields import Array, BadSample

T = TypeVar("T")


def whole(payload: decoding.Payload, target: int) -> tuple[Pixels, Array]:
    """Return the whole picture, at a lower scale if it is much larger than `target`, and its own height and width."""
    own = np.zeros(2, np.float32)
    return decoding.decode_crop(payload, all_of(own), target), own


def all_of(own: Array) -> Callable[[int, int], Box]:
    """Return the choice of the whole picture, which notes its height and width."""

    def choose(height: int, width: int) -> Box:
        own[:] = height, width
        return Box(0, 0, height, width)

    return choose


def decoded(payload: Any, decode: Callable[[Any], T]) -> T:
    """Return what `decode` makes of a payload; BadSample in words where that is no picture."""
    try:
        return decode(payload)
    except BadPicture as bad:
        raise BadSample(f"{bad}; pack the file again without it") from None
