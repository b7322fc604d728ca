"""The augmentation of pictures with masks that --augment describes, as one picklable value.

A pixel of the picture and its class stay together: both are moved by one function, pixels between their neighbours,
classes to the nearest. Where a picture ends there is gray, and IGNORED in the mask. Nothing is ever stretched. Names
and numbers are `config/components/augmentations.py`'s.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import numpy as np

from mxtrain.config.components import augmentations, import_path
from mxtrain.config.components.component import Spec
from mxtrain.config.values.sizes import Size
from mxtrain.core.errors import UsageError, as_user_code
from mxtrain.core.opencv import cv2
from mxtrain.data.augment import augmentations as of_pixels
from mxtrain.data.augment import warps
from mxtrain.data.augment.box_geometry import OUTSIDE, letterbox_of
from mxtrain.data.augment.crops import Rng
from mxtrain.data.decode.jpeg import Box, Pixels
from mxtrain.data.decode.resizing import resize
from mxtrain.data.fields import Array
from mxtrain.data.masks.mask_format import IGNORED


class Masked(NamedTuple):
    """A picture, uint8 (height, width, 3), and its mask, which may have been decoded at another scale."""

    pixels: Pixels
    mask: Array


@dataclasses.dataclass(frozen=True)
class MaskTransform:
    """The way of a picture with its mask to the size that the net sees, and changes of it."""

    specs: tuple[Spec, ...]
    size: Size

    @property
    def largest(self) -> float:
        """The largest scale at which a picture may be needed, in sides of the net's size."""
        crop = self._crop
        return dict(crop.hyperparameters)["scale_max"] if crop else 1.0

    @property
    def _crop(self) -> Spec | None:
        return self.specs[0] if self.specs and self.specs[0].name == augmentations.SCALE_CROP else None

    def __call__(self, of: Masked, own: Size, rng: Rng) -> Masked:
        """Return the picture, which is of the size `own` at full scale, as the net sees it."""
        crop = self._crop
        if crop is None:
            of = placed(of, letterbox_of(own, self.size), self.size)
        else:
            of = placed(of, scale_crop(own, self.size, rng, **dict(crop.hyperparameters)), self.size)
        for spec in self.specs[1 if crop else 0 :]:
            of = _change(of, spec, rng)
        return of


def build(text: str, size: Size, is_training: bool) -> MaskTransform:
    """Build what --augment `text` describes; for an evaluation only how a picture gets the net's size."""
    return MaskTransform(tuple(augmentations.parse_of_masks(text)) if is_training else (), size)


def placed(of: Masked, box: Box, size: Size) -> Masked:
    """Return a picture of this size in which the whole of another takes this box, which may reach beyond it."""
    pixels = np.full((*size, 3), OUTSIDE, np.uint8)
    mask = np.full(size, IGNORED, np.uint8)
    top, left = max(box.top, 0), max(box.left, 0)
    bottom, right = min(box.top + box.height, size.height), min(box.left + box.width, size.width)
    inside = slice(top, bottom), slice(left, right)
    shown = slice(top - box.top, bottom - box.top), slice(left - box.left, right - box.left)
    pixels[inside] = resize(of.pixels, box.height, box.width)[shown]
    mask[inside] = nearest(of.mask, box.height, box.width)[shown]
    return Masked(pixels, mask)


def nearest(mask: Array, height: int, width: int) -> Array:
    """Return a mask in another size: of each pixel the class that lies under its middle."""
    if mask.shape == (height, width):
        return mask
    rows, columns = (
        ((np.arange(count) + 0.5) * (old / count)).astype(np.int64)
        for count, old in zip((height, width), mask.shape)
    )
    found: Array = mask[rows[:, None], columns]
    return found


def scale_crop(own: Size, size: Size, rng: Rng, scale_min: float, scale_max: float) -> Box:
    """Draw where a picture of the size `own` lies: scaled at random, at 1 to cover `size`, and at a random place."""
    factor = rng.uniform(scale_min, scale_max) * max(size.height / own.height, size.width / own.width)
    high, wide = (max(1, round(side * factor)) for side in own)
    top, left = (
        int(rng.integers(min(0, window - side), max(0, window - side) + 1))
        for window, side in zip(size, (high, wide))
    )
    return Box(top, left, high, wide)


def flip(of: Masked, rng: Rng, p: float) -> Masked:
    """Mirror left and right, with probability `p`."""
    return Masked(cv2.flip(of.pixels, 1), cv2.flip(of.mask, 1)) if rng.random() < p else of


def vertical_flip(of: Masked, rng: Rng, p: float) -> Masked:
    """Mirror top and bottom, with probability `p`."""
    return Masked(cv2.flip(of.pixels, 0), cv2.flip(of.mask, 0)) if rng.random() < p else of


def rotate(of: Masked, rng: Rng, degrees: float) -> Masked:
    """Rotate about the centre by up to `degrees`, either way."""
    angle = rng.uniform(-degrees, degrees)
    return Masked(warps.rotate(of.pixels, angle), warps.rotate_classes(of.mask, angle, IGNORED))


def blur(of: Masked, rng: Rng, p: float, radius_max: float) -> Masked:
    """Blur the picture by a Gaussian of up to `radius_max` pixels, with probability `p`."""
    if rng.random() >= p:
        return of
    radius = rng.uniform(0, radius_max)
    return of if radius < 0.1 else of._replace(pixels=cv2.GaussianBlur(of.pixels, (0, 0), radius))


def _of_colours(name: str, of: Masked, rng: Rng, **numbers: Any) -> Masked:
    return of._replace(pixels=getattr(of_pixels, name)(of.pixels, rng, **numbers))


# Those that leave all pixels where they are.
colour_jitter, grayscale, lighting = (
    functools.partial(_of_colours, name) for name in ("colour_jitter", "grayscale", "lighting")
)


def _change(of: Masked, spec: Spec, rng: Rng) -> Masked:
    if spec.name in augmentations.MASK_AUGMENTATIONS:
        changed: Masked = augmentations.MASK_AUGMENTATIONS[spec.name].load()(
            of, rng, **dict(spec.hyperparameters)
        )
        return changed
    flag = f"--augment {spec.name}"
    made: Any = as_user_code(flag, import_path.load_callable("--augment", spec.name))(*of, rng)
    try:
        pixels, mask = made
        fits = pixels.dtype == mask.dtype == np.uint8
        fits = fits and (pixels.shape, mask.shape) == (of.pixels.shape, of.mask.shape)
    except (TypeError, ValueError, AttributeError):
        fits = False
    if not fits:
        raise UsageError(
            f"{flag}: has to return the picture and its mask, both uint8 and of their sizes before"
        )
    return Masked(pixels, mask)
