"""The size of the pictures that a net sees: `--image-size 224`, a square, or `224x320`, its height and its width."""

from __future__ import annotations

import re
from typing import NamedTuple, Union

from mxtrain.core.errors import UsageError

ImageSize = Union[int, str]  # as the flag says it, and checkpoints: a square is a number
WORDS = re.compile(r"([0-9]{1,9})(?:x([0-9]{1,9}))?")


class Size(NamedTuple):
    """Height and width in pixels."""

    height: int
    width: int

    def __str__(self) -> str:
        return f"{self.height}x{self.width}"


def height_and_width(image_size: ImageSize) -> Size:
    """Return the height and the width that the flag says; UsageError where it says neither."""
    if isinstance(image_size, int):
        return Size(image_size, image_size)
    found = WORDS.fullmatch(image_size)
    if found is None:
        raise UsageError(
            f"--image-size {image_size}: give a whole number for squares, or HEIGHTxWIDTH, as in 224x320"
        )
    return Size(int(found[1]), int(found[2] or found[1]))


def plain(image_size: ImageSize) -> ImageSize:
    """Return the one way to say this size; what says none stays as it is, to be refused where flags are checked."""
    if isinstance(image_size, int) or not WORDS.fullmatch(image_size):
        return image_size
    size = height_and_width(image_size)
    return size.height if size.height == size.width else str(size)
