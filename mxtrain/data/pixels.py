"""The transform of a sample, and the crops that it begins with.

A crop takes encoded bytes and returns uint8 pixels (size, size, 3), so that it can skip decoding what lies outside; it
draws from the given generator alone. Does not own the changes that follow (`changes.py`), nor the names of
augmentations and their numbers (`augment.py`).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Callable

import numpy as np
import numpy.typing as npt

from mxtrain.core.errors import UsageError
from mxtrain.core.opencv import cv2
from mxtrain.data import images, native
from mxtrain.data.images import Payload
from mxtrain.data.jpeg import Box, Pixels

Rng = Any  # np.random.Generator; None where nothing is drawn


@dataclasses.dataclass(frozen=True)
class Transform:
    """A crop, then changes, then normalisation: from a picture's bytes to planes (3, image_size, image_size).

    `out`, into which the planes are written, decides about normalisation: float32 is normalised by `mean` and `std` of
    pixels from 0 to 1; uint8 is not, for a device to do so.
    """

    crop: Callable[..., Pixels]
    changes: tuple[Callable[..., Pixels], ...]
    image_size: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    def __call__(self, payload: Payload, rng: Rng, out: npt.NDArray[Any]) -> None:
        image = self.crop(payload, rng, self.image_size)
        for change in self.changes:
            image = change(image, rng)
        # A user's own augmentation may return anything.
        if image.shape != (self.image_size, self.image_size, 3) or image.dtype != np.uint8:
            raise UsageError(
                f"--augment made {image.dtype} {image.shape} of a picture; "
                f"it has to stay uint8 {(self.image_size, self.image_size, 3)}"
            )
        scale = tuple(1 / (255 * std) for std in self.std)
        offset = tuple(mean / std for mean, std in zip(self.mean, self.std))
        write_planes(image, out, scale, offset)


def write_planes(
    image: Pixels, out: npt.NDArray[Any], scale: tuple[float, ...], offset: tuple[float, ...]
) -> None:
    """Write each colour's plane to `out`, times its scale and less its offset; unchanged where `out` is uint8."""
    if native.planes and image.strides[1:] == (3, 1):
        native.planes(image, out, scale, offset)
        return
    for plane, factor, less, to in zip(cv2.split(image), scale, offset, out):
        if out.dtype == np.uint8:
            to[:] = plane
            continue
        np.multiply(plane, np.float32(factor), out=to)
        np.subtract(to, np.float32(less), out=to)


def centre_crop(payload: Payload, rng: Rng, size: int, resize: int = 0) -> Pixels:
    """Scale the picture to the short side `resize` (0: `size`), and return the square of `size` in its centre."""
    resize = resize or size
    square = images.decode_square(payload, _centre_square, resize)
    start = (resize - size) // 2
    return square[start : start + size, start : start + size]


def resized_crop(payload: Payload, rng: Rng, size: int, **limits: float) -> Pixels:
    """Return a box of random area, shape and place, stretched to `size`; `limits` are those of `random_box`."""
    return images.decode_square(payload, lambda height, width: random_box(height, width, rng, **limits), size)


def pad_crop(payload: Payload, rng: Rng, size: int, pad: int) -> Pixels:
    """Scale a square of the short side to `size`, add a black border of `pad` pixels, and crop it at random."""
    square = images.decode_square(payload, lambda height, width: _random_square(height, width, rng), size)
    framed = cv2.copyMakeBorder(square, pad, pad, pad, pad, cv2.BORDER_CONSTANT)
    top, left = rng.integers(0, 2 * pad + 1, size=2).tolist()
    return framed[top : top + size, left : left + size]


CROPS: dict[str, Callable[..., Pixels]] = {
    "none": centre_crop,
    "resized_crop": resized_crop,
    "pad_crop": pad_crop,
}


def _centre_square(height: int, width: int) -> Box:
    side = min(height, width)
    return Box((height - side) // 2, (width - side) // 2, side, side)


def _random_square(height: int, width: int, rng: Rng) -> Box:
    side = min(height, width)
    return Box(int(rng.integers(0, height - side + 1)), int(rng.integers(0, width - side + 1)), side, side)


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
