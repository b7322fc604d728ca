"""Augmentation that suits a training set: what `--augment auto` comes to, by the size and number of its pictures.

Owns the rule (docs/adr/0047). A run keeps what was chosen when it began, as text, in its config.yaml and checkpoints.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np

from mxtrain.config import Data
from mxtrain.config.components import augmentations, tasks
from mxtrain.config.values import sizes
from mxtrain.core.errors import DataError
from mxtrain.data.decode import decoding, orientation
from mxtrain.data.decode.jpeg import BadPicture, Box
from mxtrain.data.interfaces import Dataset
from mxtrain.data.user.streams import Stream

SMALL = 64  # the shorter side of pictures that show one thing as a whole: CIFAR's, digits, icons
FEW = 10_000  # pictures
SAMPLED = 32  # pictures, evenly spread over the set
GENTLE = "resized_crop:scale_min=0.5+flip"


class AugmentChoice(NamedTuple):
    """An augmentation, and why it is that: a line for the log, or nothing to say."""

    augment: str
    line: str = ""


def of_data(data: Data, train: Dataset, task: str) -> AugmentChoice:
    """Return what --augment of a new run comes to on this training set: what was given, or what suits its pictures."""
    if data.augment != augmentations.AUTO:
        return AugmentChoice(data.augment)
    if tasks.defaults_of(task).has_boxes:
        why = "as SSDs are learnt; leave flip out where a mirrored object is of another class, or give none"
        return AugmentChoice(augmentations.OF_BOXES, f"--augment {augmentations.OF_BOXES}: {why}")
    side = _shorter_side(train)
    if side is None:  # a DataLoader, or nothing that can be read: training will say so
        return AugmentChoice(augmentations.IMAGENET)
    if side < SMALL:
        augment = f"pad_crop:pad={max(1, round(min(sizes.height_and_width(data.image_size)) / 8))}"
        return AugmentChoice(
            augment,
            f"--augment {augment}: pictures are small ({side} pixels), and shifted, not cut; give {augment}+flip where "
            "mirrored ones keep their class",
        )
    if not isinstance(train, Stream) and len(train) < FEW:
        why = f"{len(train)} pictures are few, and a crop keeps half of the area; give another if that cuts too much"
        return AugmentChoice(GENTLE, f"--augment {GENTLE}: {why}")
    return AugmentChoice(augmentations.IMAGENET, f"--augment {augmentations.IMAGENET}: as for ImageNet")


def _shorter_side(train: Dataset) -> int | None:
    """Return the median of the shorter sides of some pictures; None where none can be read."""
    records: Any = train.first() if isinstance(train, Stream) else train
    if not hasattr(records, "read"):
        return None
    positions = np.unique(np.linspace(0, len(records) - 1, SAMPLED).astype(np.int64))
    if hasattr(records, "will_need"):
        records.will_need(positions)
    sides = [side for side in (_side(records, each) for each in positions.tolist()) if side]
    return int(np.median(sides)) if sides else None


def _side(records: Any, position: int) -> int:
    """Return the shorter side of a picture; 0 where it cannot be read."""
    side = 0

    def choose(height: int, width: int) -> Box:
        nonlocal side
        side = min(height, width)
        return Box(0, 0, 1, 1)

    try:
        payload = records.read(position).payload
        side = _side_of_png(payload)
        if not side:
            decoding.decode_crop(payload, choose, 1)
    except (DataError, BadPicture):
        return 0  # training will say so, or pass it over
    return side


def _side_of_png(payload: Any) -> int:
    """Return the shorter side of a PNG, without decoding all of it; 0 of anything else."""
    chunks = () if isinstance(payload, np.ndarray) else orientation.png_chunks(payload)
    for chunk_type, start, end in chunks:
        if chunk_type == b"IHDR" and start + 8 <= end <= len(payload):
            width, height = struct.unpack_from(">II", payload, start)
            return min(int(width), int(height))
    return 0
