"""The random changes of --augment: functions from uint8 RGB pixels of the net's size to new ones of the same size.

Each draws from the given generator alone, and does not write to its argument. Does not own the operations on colours
and shapes (`colours.py`, `warps.py`), nor names, numbers and defaults (`config/components/augmentations.py`).
"""

from __future__ import annotations

from typing import Callable, NamedTuple

import numpy as np

from mxtrain.core.opencv import cv2
from mxtrain.data.augment import colours, warps
from mxtrain.data.augment.crops import Rng, random_box
from mxtrain.data.decode.jpeg import Pixels

# The directions in which the colours of ImageNet's pixels vary, and how much, in levels of 255 (AlexNet's).
IMAGENET_DIRECTIONS = np.array(
    [[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]]
)
IMAGENET_SPREAD = np.array([55.46, 4.794, 1.148])


def flip(image: Pixels, rng: Rng, p: float) -> Pixels:
    """Mirror left and right, with probability `p`."""
    return cv2.flip(image, 1) if rng.random() < p else image


def vertical_flip(image: Pixels, rng: Rng, p: float) -> Pixels:
    """Mirror top and bottom, with probability `p`."""
    return cv2.flip(image, 0) if rng.random() < p else image


def grayscale(image: Pixels, rng: Rng, p: float) -> Pixels:
    """Remove the colours, with probability `p`."""
    return colours.gray(image) if rng.random() < p else image


def rotate(image: Pixels, rng: Rng, degrees: float) -> Pixels:
    """Rotate about the centre by up to `degrees`, either way."""
    return warps.rotate(image, rng.uniform(-degrees, degrees))


def colour_jitter(
    image: Pixels, rng: Rng, brightness: float, contrast: float, saturation: float, hue: float, p: float
) -> Pixels:
    """Change each of the four by a random amount up to its number, with probability `p`, in a random order."""
    steps: list[tuple[Callable[[Pixels, float], Pixels], float, float]] = [
        (colours.brightness, 1, brightness),
        (colours.contrast, 1, contrast),
        (colours.saturation, 1, saturation),
        (colours.hue, 0, hue),
    ]
    for which in rng.permutation(len(steps)).tolist():
        change, neutral, most = steps[which]
        if most and (p == 1 or rng.random() < p):
            image = change(image, rng.uniform(neutral - most, neutral + most))
    return image


def lighting(image: Pixels, rng: Rng, alpha: float) -> Pixels:
    """Shift all pixels along the directions in which ImageNet's colours vary, by `alpha` of their spread."""
    return colours.shift(image, IMAGENET_DIRECTIONS @ (IMAGENET_SPREAD * rng.normal(0, alpha, size=3)))


def erase(image: Pixels, rng: Rng, p: float, **limits: float) -> Pixels:
    """Fill a random box with random pixels, with probability `p`; `limits` are those of `random_box`."""
    if rng.random() >= p:
        return image
    top, left, height, width = random_box(image.shape[0], image.shape[1], rng, **limits)
    noise = np.frombuffer(rng.bytes(height * width * 3), np.uint8)
    erased = image.copy()
    erased[top : top + height, left : left + width] = noise.reshape(height, width, 3)
    return erased


class Operation(NamedTuple):
    """One operation of RandAugment; at magnitude 10 its argument is `neutral + strength`, at 0 `neutral`."""

    change: Callable[[Pixels, float], Pixels]
    neutral: float = 0
    strength: float = 0
    is_signed: bool = False  # a random sign before the strength


# The paper's fourteen, with AutoAugment's ranges. In the paper enhancements went from 0.1 to 1.9, and a higher
# magnitude solarized and posterized less; here, as in later code, higher is stronger for each.
OPERATIONS = {
    "identity": Operation(lambda image, _: image),
    "autocontrast": Operation(lambda image, _: colours.autocontrast(image)),
    "equalize": Operation(lambda image, _: colours.equalize(image)),
    "rotate": Operation(warps.rotate, 0, 30, is_signed=True),
    "solarize": Operation(colours.solarize, 256, -256),
    "colour": Operation(colours.saturation, 1, 0.9, is_signed=True),
    "posterize": Operation(colours.posterize, 8, -4),
    "contrast": Operation(colours.contrast, 1, 0.9, is_signed=True),
    "brightness": Operation(colours.brightness, 1, 0.9, is_signed=True),
    "sharpness": Operation(colours.sharpness, 1, 0.9, is_signed=True),
    "shear_x": Operation(warps.shear_x, 0, 0.3, is_signed=True),
    "shear_y": Operation(warps.shear_y, 0, 0.3, is_signed=True),
    "translate_x": Operation(warps.translate_x, 0, 0.45, is_signed=True),
    "translate_y": Operation(warps.translate_y, 0, 0.45, is_signed=True),
}


def randaugment(image: Pixels, rng: Rng, n: int, m: int) -> Pixels:
    """Apply `n` of the operations, drawn with replacement, at magnitude `m` of 10."""
    operations = list(OPERATIONS.values())
    for which in rng.integers(len(operations), size=n).tolist():
        change, neutral, strength, is_signed = operations[which]
        is_negative = is_signed and rng.random() < 0.5
        image = change(image, neutral + (-strength if is_negative else strength) * m / 10)
    return image
