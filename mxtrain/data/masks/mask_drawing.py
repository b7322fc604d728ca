"""Masks drawn over pictures, each class in a colour of its own, and masks as files of as many colours."""

from __future__ import annotations

import io

import numpy as np

from mxtrain.data.boxes.box_drawing import Colour, colour_of
from mxtrain.data.decode.jpeg import Pixels
from mxtrain.data.fields import Array
from mxtrain.data.masks.mask_format import IGNORED

SHARE = 0.5  # of a class's colour in what is shown


def palette(num_classes: int) -> list[Colour]:
    """Return the colour of each class: black of the first, which mostly is the background."""
    return [(0, 0, 0), *(colour_of(number) for number in range(1, num_classes))]


def drawn(pixels: Pixels, mask: Array, num_classes: int) -> Pixels:
    """Return the RGB picture with the colours of all classes but the first over it, and gray where nothing counts."""
    colours = np.array([*palette(num_classes), (128, 128, 128)], np.float32)
    numbers = np.where(mask == IGNORED, num_classes, np.minimum(mask, num_classes - 1))
    shares = np.where(numbers == 0, 0, SHARE)[..., None]
    shown: Pixels = np.rint(pixels * (1 - shares) + colours[numbers] * shares).astype(np.uint8)
    return shown


def encoded(mask: Array, num_classes: int) -> bytes:
    """Return a mask as PNG whose pixels are classes, with a palette by which they are shown in colours."""
    from PIL import Image  # which GluonCV brings

    picture = Image.fromarray(mask, "P")
    colours = [
        *palette(num_classes),
        *[(224, 224, 192)] * (IGNORED + 1 - num_classes),
    ]  # as Pascal VOC shows borders
    picture.putpalette([part for colour in colours for part in colour])
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return file.getvalue()
