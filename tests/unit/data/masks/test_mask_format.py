"""The payload of a picture with its mask: both come back, and twenty lines without mxtrain read it."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
from PIL import Image

from mxtrain.data.decode import decoding
from mxtrain.data.masks import mask_drawing, mask_format


def encoded(picture: np.ndarray, format: str) -> bytes:
    file = io.BytesIO()
    Image.fromarray(picture).save(file, format)
    return file.getvalue()


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("shape", [(1, 1), (7, 300), (64, 48)])
def test_both_come_back(format: str, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    picture = encoded(rng.integers(0, 256, (*shape, 3)).astype(np.uint8), format)
    mask = rng.integers(0, 256, shape).astype(np.uint8)
    payload = mask_format.join(picture, mask)
    own, found = mask_format.split(memoryview(payload))
    assert bytes(own) == picture == bytes(mask_format.picture_of(payload)) and np.array_equal(found, mask)
    assert mask_format.picture_of(picture) == picture and not mask_format.has_mask(picture)
    # As docs/segmentation.md reads it.
    length, magic = struct.unpack("<I8s", payload[-12:])
    assert magic == b"mxtmask1"
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(payload[-12 - length : -12]))), mask)
    assert Image.open(io.BytesIO(payload)).size == shape[::-1]


def test_a_jpeg_with_a_mask_is_decoded_as_it_was() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (40, 56, 3)).astype(np.uint8)
    picture = encoded(pixels, "JPEG")
    payload = mask_format.join(picture, np.zeros((40, 56), np.uint8))
    assert np.array_equal(decoding.decode(payload), decoding.decode(picture))


@pytest.mark.parametrize("num_classes", [2, 21, 255])
def test_a_mask_in_colours_keeps_its_classes(num_classes: int) -> None:
    mask = np.random.default_rng(2).integers(0, num_classes, (30, 20)).astype(np.uint8)
    mask[0, 0] = mask_format.IGNORED
    found = Image.open(io.BytesIO(mask_drawing.encoded(mask, num_classes)))
    assert found.mode == "P" and np.array_equal(np.asarray(found), mask)
    assert len({*mask_drawing.palette(min(num_classes, 60))}) == min(num_classes, 60)


def test_the_background_is_shown_as_it_is() -> None:
    pixels = np.random.default_rng(3).integers(0, 256, (8, 8, 3)).astype(np.uint8)
    mask = np.zeros((8, 8), np.uint8)
    mask[2, 3], mask[4, 4] = 1, mask_format.IGNORED
    drawn = mask_drawing.drawn(pixels, mask, 3)
    changed = (drawn != pixels).any(axis=2)
    assert not changed[mask == 0].any() and changed[2, 3] and changed[4, 4]
