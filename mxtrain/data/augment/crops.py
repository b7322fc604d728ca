"""The transform of a sample, and the crops that it begins with.

A crop takes encoded bytes and returns uint8 pixels (*size, 3), so that it can skip decoding what lies outside; it
draws from the given generator alone. Does not own the changes that follow (`augmentations.py`), nor the names of
augmentations and their numbers (`transforms.py`).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Callable

import numpy as np

from mxtrain import native
from mxtrain.config.values.mean_deviation import Numbers
from mxtrain.config.values.sizes import Size
from mxtrain.core.errors import UsageError
from mxtrain.core.opencv import cv2
from mxtrain.data.augment import colours
from mxtrain.data.decode import decoding
from mxtrain.data.decode.decoding import Payload
from mxtrain.data.decode.jpeg import Box, Pixels
from mxtrain.data.fields import Array

Rng = Any  # np.random.Generator; None where nothing is drawn


@dataclasses.dataclass(frozen=True)
class Transform:
    """A crop, then changes, then normalisation: from a picture's bytes to planes (channels, *size).

    There are as many channels as means. Where it is one, changes see a grey picture, of three equal colours.

    `out`, into which the planes are written, decides about normalisation: float32 is normalised by `mean` and `std` of
    pixels from 0 to 1; uint8 is not, for a device to do so.
    """

    crop: Callable[..., Pixels]
    changes: tuple[Callable[..., Pixels], ...]
    size: Size
    mean: Numbers
    std: Numbers

    def __call__(self, payload: Payload, rng: Rng, out: Array) -> None:
        image, is_grey = self.crop(payload, rng, self.size), len(self.mean) == 1
        if is_grey:
            image = colours.gray(image)
        for change in self.changes:
            image = change(image, rng)
        # A user's own augmentation may return anything.
        if image.shape != (*self.size, 3) or image.dtype != np.uint8:
            raise UsageError(
                f"--augment made {image.dtype} {image.shape} of a picture; "
                f"it has to stay uint8 {(*self.size, 3)}"
            )
        scale = tuple(1 / (255 * std) for std in self.std)
        offset = tuple(mean / std for mean, std in zip(self.mean, self.std))
        write = _write_grey if is_grey else write_planes
        write(image, out, scale, offset)


def _write_grey(image: Pixels, out: Array, scale: tuple[float, ...], offset: tuple[float, ...]) -> None:
    """Write the plane of grey, as `write_planes` does those of colours."""
    _write_plane(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), out[0], scale[0], offset[0])


def write_planes(image: Pixels, out: Array, scale: tuple[float, ...], offset: tuple[float, ...]) -> None:
    """Write each colour's plane to `out`, times its scale and less its offset; unchanged where `out` is uint8."""
    if native.planes and image.strides[1:] == (3, 1):
        native.planes(image, out, scale, offset)
        return
    for plane, factor, less, to in zip(cv2.split(image), scale, offset, out):
        _write_plane(plane, to, factor, less)


def _write_plane(plane: Array, to: Array, factor: float, less: float) -> None:
    if to.dtype == np.uint8:
        to[:] = plane
        return
    np.multiply(plane, np.float32(factor), out=to)
    np.subtract(to, np.float32(less), out=to)


def no_crop(pixels: Pixels, rng: Rng, size: Size) -> Pixels:
    """Return pixels that have their size already."""
    return pixels


def centre_crop(payload: Payload, rng: Rng, size: Size, resize: int = 0) -> Pixels:
    """Scale the largest box of this shape in the centre to the short side `resize` (0: that of `size`), and crop it."""
    short, resize = min(size), resize or min(size)
    scaled = Size(round(size.height * resize / short), round(size.width * resize / short))
    image = decoding.decode_resized(payload, lambda height, width: _centre_box(height, width, size), scaled)
    top, left = (scaled.height - size.height) // 2, (scaled.width - size.width) // 2
    return image[top : top + size.height, left : left + size.width]


def resized_crop(
    payload: Payload, rng: Rng, size: Size, *, ratio_min: float, ratio_max: float, **scales: float
) -> Pixels:
    """Return a box of random area, shape and place, stretched to `size`; the numbers are those of `random_box`.

    Ratios are those of the box to the shape of `size`: at 1 nothing is distorted.
    """
    shape = size.width / size.height
    limits = {"ratio_min": ratio_min * shape, "ratio_max": ratio_max * shape, **scales}
    return decoding.decode_resized(
        payload, lambda height, width: random_box(height, width, rng, **limits), size
    )


def pad_crop(payload: Payload, rng: Rng, size: Size, pad: int) -> Pixels:
    """Scale a box, the largest of this shape, to `size`, add a black border of `pad` pixels, and crop it at random."""
    image = decoding.decode_resized(
        payload, lambda height, width: _random_place(height, width, size, rng), size
    )
    framed = cv2.copyMakeBorder(image, pad, pad, pad, pad, cv2.BORDER_CONSTANT)
    top, left = rng.integers(0, 2 * pad + 1, size=2).tolist()
    return framed[top : top + size.height, left : left + size.width]


def _centre_box(height: int, width: int, shape: Size) -> Box:
    high, wide = largest_within(height, width, shape)
    return Box((height - high) // 2, (width - wide) // 2, high, wide)


def _random_place(height: int, width: int, shape: Size, rng: Rng) -> Box:
    high, wide = largest_within(height, width, shape)
    return Box(int(rng.integers(0, height - high + 1)), int(rng.integers(0, width - wide + 1)), high, wide)


def largest_within(height: int, width: int, shape: Size) -> tuple[int, int]:
    """Return height and width of the largest box of this shape, to the nearest pixel, in a picture of this size."""
    if height * shape.width >= width * shape.height:
        return min(height, max(1, round(width * shape.height / shape.width))), width
    return height, min(width, max(1, round(height * shape.width / shape.height)))


def random_box(
    height: int,
    width: int,
    rng: Rng,
    scale_min: float,
    scale_max: float,
    ratio_min: float,
    ratio_max: float,
) -> Box:
    """Draw Inception's crop: `scale` is its fraction of the area, `ratio` its width over its height."""
    for _ in range(10):
        area = height * width * rng.uniform(scale_min, scale_max)
        ratio = math.exp(rng.uniform(math.log(ratio_min), math.log(ratio_max)))
        high, wide = max(1, round(math.sqrt(area / ratio))), max(1, round(math.sqrt(area * ratio)))
        if high <= height and wide <= width:
            top, left = int(rng.integers(0, height - high + 1)), int(rng.integers(0, width - wide + 1))
            return Box(top, left, high, wide)
    # So long or so tall a picture hardly holds such a box: the largest one in the middle.
    high, wide = min(height, math.ceil(width / ratio_min)), min(width, math.ceil(height * ratio_max))
    return Box((height - high) // 2, (width - wide) // 2, high, wide)
