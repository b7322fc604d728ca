"""Pictures that a user has, of kinds that no training reads: as Pillow sees their first picture on white."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image, features

from mxtrain.data.decode import pillow_decode
from mxtrain.data.decode.jpeg import BadPicture

RGB = np.random.default_rng(0).integers(0, 256, (20, 30, 3), np.uint8)


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def test_of_a_gif_the_first_picture_is_seen_on_white() -> None:
    frames = [Image.fromarray(np.full((8, 8, 3), level, np.uint8)) for level in (50, 200)]
    payload = saved(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert pillow_decode.is_one(payload)
    assert (pillow_decode.decode(payload) == 50).all()
    palette = Image.fromarray(np.zeros((8, 8), np.uint8), "P")
    palette.putpalette([10, 20, 30])
    assert (pillow_decode.decode(saved(palette, "GIF", transparency=0)) == 255).all()


@pytest.mark.skipif(not features.check("avif"), reason="this Pillow reads no AVIF")
def test_avif() -> None:
    smooth = np.tile(np.linspace(0, 255, 64).astype(np.uint8)[:, None, None], (1, 64, 3))
    payload = saved(Image.fromarray(smooth), "AVIF", quality=95)
    assert pillow_decode.is_one(payload)
    np.testing.assert_allclose(pillow_decode.decode(payload), smooth.astype(int), atol=8)


def test_what_training_reads_is_left_to_its_reader() -> None:
    for kind in ("PNG", "JPEG", "WEBP", "TIFF", "BMP"):
        assert not pillow_decode.is_one(saved(Image.fromarray(RGB), kind))


@pytest.mark.parametrize("end", [6, 13, 40, 300])
def test_a_gif_that_is_cut_off_is_refused(end: int) -> None:
    payload = saved(Image.fromarray(RGB), "GIF")
    with pytest.raises(BadPicture, match="Pillow cannot decode it"):
        pillow_decode.decode(payload[:end])
