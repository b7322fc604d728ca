"""Contract of a task's net: the shapes that it takes and has to answer, and words for messages. Needs no mxnet."""

from __future__ import annotations

from typing import NamedTuple, Tuple

from mxtrain.config.values import sizes
from mxtrain.config.values.sizes import ImageSize

Shape = Tuple[int, ...]


class Contract(NamedTuple):
    """The shapes of one sample, at full length: the net's `inputs`, and its `answer`, None where any will do."""

    inputs: tuple[Shape, ...]
    answer: Shape | None
    noun: str  # for a sample, as in `picture`
    takes: str  # as in `pictures of --image-size 224`
    expects: str  # the sentence about an answer of another shape
    loss_shape: Shape | None = None  # of what the loss works on, where that is larger than the answer


def of_pictures(image_size: ImageSize, num_classes: int, channels: int = 3) -> Contract:
    """Return the contract of a classifier of pictures."""
    return Contract(
        inputs=((channels, *sizes.height_and_width(image_size)),),
        answer=(num_classes,),
        noun="picture",
        takes=pictures_in_words(image_size, channels),
        expects=f"there are {num_classes} classes; it has to give one array of shape (pictures, {num_classes})",
    )


def pictures_in_words(image_size: ImageSize, channels: int) -> str:
    """Return what a net of pictures has to take."""
    return f"pictures of --image-size {image_size}{' and --channels 1' if channels == 1 else ''}"
