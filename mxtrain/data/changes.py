"""The random changes of --augment: uint8 RGB pixels of the net's size in, new ones of the same size out.

Each draws from the generator handed in and from nothing else, and leaves the pixels that it was given alone. What
is done to colours and shapes is `colours.py`'s and `warps.py`'s; names, numbers and defaults are in `augment.py`.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

import cv2
import numpy as np

from mxtrain.data import colours, warps
from mxtrain.data.jpeg import Pixels
from mxtrain.data.pixels import Rng, random_box

# The directions in which the colours of ImageNet's pixels vary, and how much, in levels of 255 (AlexNet's).
IMAGENET_DIRECTIONS = np.array(
    [[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]]
)
IMAGENET_SPREAD = np.array([55.46, 4.794, 1.148])


def flip(image: Pixels, rng: Rng, p: float) -> Pixels:
    """Left and right exchanged, with probability `p`."""
    return cv2.flip(image, 1) if rng.random() < p else image


def vertical_flip(image: Pixels, rng: Rng, p: float) -> Pixels:
    """Top and bottom exchanged, with probability `p`."""
    return cv2.flip(image, 0) if rng.random() < p else image


def grayscale(image: Pixels, rng: Rng, p: float) -> Pixels:
    """Without colours, with probability `p`."""
    return colours.gray(image) if rng.random() < p else image


def rotate(image: Pixels, rng: Rng, degrees: float) -> Pixels:
    """Turned about the centre by at most so much, either way."""
    return warps.rotate(image, rng.uniform(-degrees, degrees))


def colour_jitter(
    image: Pixels, rng: Rng, brightness: float, contrast: float, saturation: float, hue: float
) -> Pixels:
    """Each of the four moved by at most its number, in a random order."""
    steps: list[tuple[Callable[[Pixels, float], Pixels], float, float]] = [
        (colours.brightness, 1, brightness),
        (colours.contrast, 1, contrast),
        (colours.saturation, 1, saturation),
        (colours.hue, 0, hue),
    ]
    for place in rng.permutation(len(steps)).tolist():
        change, neutral, reach = steps[place]
        if reach:
            image = change(image, rng.uniform(neutral - reach, neutral + reach))
    return image


def lighting(image: Pixels, rng: Rng, alpha: float) -> Pixels:
    """All pixels moved along the directions in which ImageNet's colours vary, by `alpha` of their spread."""
    return colours.shift(image, IMAGENET_DIRECTIONS @ (IMAGENET_SPREAD * rng.normal(0, alpha, size=3)))


def erase(image: Pixels, rng: Rng, p: float, **limits: float) -> Pixels:
    """A box of random area, shape and place filled with random pixels, with probability `p`."""
    if rng.random() >= p:
        return image
    top, left, height, width = random_box(image.shape[0], image.shape[1], rng, **limits)
    noise = np.frombuffer(rng.bytes(height * width * 3), np.uint8)
    erased = image.copy()
    erased[top : top + height, left : left + width] = noise.reshape(height, width, 3)
    return erased


class Operation(NamedTuple):
    """One of RandAugment's: at magnitude 10 it is `reach` away from `neutral`."""

    change: Callable[[Pixels, float], Pixels]
    neutral: float = 0
    reach: float = 0
    either_way: bool = False


# The fourteen of the paper, with AutoAugment's ranges. Its enhancements went from 0.1 to 1.9, and a higher
# magnitude solarized and posterized less; here, as in later code, higher is stronger for each.
OPERATIONS = {
    "identity": Operation(lambda image, _: image),
    "autocontrast": Operation(lambda image, _: colours.autocontrast(image)),
    "equalize": Operation(lambda image, _: colours.equalize(image)),
    "rotate": Operation(warps.rotate, 0, 30, either_way=True),
    "solarize": Operation(colours.solarize, 256, -256),
    "colour": Operation(colours.saturation, 1, 0.9, either_way=True),
    "posterize": Operation(colours.posterize, 8, -4),
    "contrast": Operation(colours.contrast, 1, 0.9, either_way=True),
    "brightness": Operation(colours.brightness, 1, 0.9, either_way=True),
    "sharpness": Operation(colours.sharpness, 1, 0.9, either_way=True),
    "shear_x": Operation(warps.shear_x, 0, 0.3, either_way=True),
    "shear_y": Operation(warps.shear_y, 0, 0.3, either_way=True),
    "translate_x": Operation(warps.translate_x, 0, 0.45, either_way=True),
    "translate_y": Operation(warps.translate_y, 0, 0.45, either_way=True),
}


def randaugment(image: Pixels, rng: Rng, n: int, m: int) -> Pixels:
    """`n` of the operations, drawn with replacement, at magnitude `m` of 10."""
    operations = list(OPERATIONS.values())
    for place in rng.integers(len(operations), size=n).tolist():
        change, neutral, reach, either_way = operations[place]
        backwards = either_way and rng.random() < 0.5
        image = change(image, neutral + (-reach if backwards else reach) * m / 10)
    return image


CHANGES: dict[str, Callable[..., Any]] = {
    "flip": flip,
    "vertical_flip": vertical_flip,
    "rotate": rotate,
    "colour_jitter": colour_jitter,
    "grayscale": grayscale,
    "lighting": lighting,
    "randaugment": randaugment,
    "erase": erase,
}
