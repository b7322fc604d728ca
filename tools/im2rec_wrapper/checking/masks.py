"""The check of masks behind pictures, and the number of pictures that have each class."""

from __future__ import annotations

import functools
from collections import Counter

import numpy as np

from mxtrain.data.decode.jpeg import Payload
from mxtrain.data.masks import mask_format
from mxtrain.data.masks.mask_format import IGNORED
from mxtrain.data.records.recordio_file import RecordIOFile

from . import classes
from .classes import Class
from .contents import Content, Damage, Inspect, payload_at
from .findings import Finding
from .structure import RecordTable


def are_masked(file: RecordIOFile, table: RecordTable) -> bool:
    """Return whether the first record that can be read has a mask behind its picture."""
    for offset in table.offsets.tolist():
        try:
            return mask_format.has_mask(payload_at(file, offset, has_checksums=False))
        except Damage:
            continue
    return False


def inspecting(picture: Inspect, table: RecordTable) -> Inspect:
    """Return the function that inspects a picture and its mask."""
    names, _, _ = classes.read_list(table)
    return functools.partial(_inspect, picture=picture, num_classes=len(names) or mask_format.MOST_CLASSES)


def counted(table: RecordTable, counts: Counter[int]) -> tuple[list[Class], list[Finding]]:
    """Return the classes with the number of pictures that have each, and the findings about them."""
    names, _, findings = classes.read_list(table)
    found = classes.named(names, counts)
    return found, findings + classes.check_balance(table, found)


def _inspect(payload: Payload, picture: Inspect, num_classes: int) -> Content:
    try:
        own, mask = mask_format.split(payload)
    except ValueError as bad:
        raise Damage("mask", str(bad)) from None
    content = picture(own)
    size = content.height, content.width
    if None not in size and mask.shape != size:
        wide, high = mask.shape[::-1]
        raise Damage("mask", f"its mask is {wide} x {high} pixels, and the picture {size[1]} x {size[0]}")
    wrong = mask_format.wrong_class(mask, num_classes)
    if wrong is not None:
        raise Damage("mask", f"a pixel of its mask has class {wrong}, and there are {num_classes}")
    found = [number for number in np.unique(mask).tolist() if number != IGNORED]
    return content._replace(classes=tuple(found), says_nothing=not found, num_bytes=len(payload))
