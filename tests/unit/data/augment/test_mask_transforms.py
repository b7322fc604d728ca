"""Augmentation of pictures with masks: a pixel and its class go together, and nothing is stretched."""

from __future__ import annotations

import numpy as np
import pytest

from mxtrain.config.values.sizes import Size
from mxtrain.core.errors import UsageError
from mxtrain.data.augment import mask_transforms
from mxtrain.data.augment.mask_transforms import Masked, nearest
from mxtrain.data.masks.mask_format import IGNORED

COLOURS = np.array([[20, 30, 40], [220, 60, 40], [40, 210, 90], [60, 80, 230]], np.uint8)


def scene(seed: int, height: int = 90, width: int = 120) -> Masked:
    """Return a picture whose colour tells the class of each pixel."""
    rng = np.random.default_rng(seed)
    mask = np.zeros((height, width), np.uint8)
    for number in range(1, len(COLOURS)):
        top, left = int(rng.integers(0, height // 2)), int(rng.integers(0, width // 2))
        mask[top : top + height // 3, left : left + width // 3] = number
    return Masked(COLOURS[mask], mask)


def told_by_colour(pixels: np.ndarray) -> np.ndarray:
    """Return the class whose colour is nearest, and 4 where it is gray."""
    every = np.concatenate([COLOURS, [[124, 116, 104]], [[128, 128, 128]]]).astype(int)
    apart = np.abs(pixels[:, :, None].astype(int) - every).sum(axis=-1).argmin(axis=-1)
    return np.minimum(apart, 4)


@pytest.mark.parametrize(
    "augment",
    [
        "none",
        "flip:p=1",
        "vertical_flip:p=1",
        "rotate:degrees=40",
        "scale_crop",
        "scale_crop:scale_min=0.3,scale_max=3+flip+rotate:degrees=180",
    ],
)
@pytest.mark.parametrize("size", [Size(64, 64), Size(50, 130), Size(200, 150)])
def test_each_pixel_keeps_its_class(augment: str, size: Size) -> None:
    for seed in range(6):
        of = scene(seed)
        change = mask_transforms.build(augment, size, is_training=True)
        found = change(of, Size(*of.mask.shape), np.random.default_rng(seed))
        assert found.pixels.shape == (*size, 3) and found.mask.shape == tuple(size)
        told = told_by_colour(found.pixels)
        expected = np.where(found.mask == IGNORED, 4, found.mask)
        # Beside borders colours are mixed.
        near = np.zeros(size, bool)
        for axis in (0, 1):
            for step in (-2, -1, 1, 2):
                near |= np.roll(expected, step, axis) != expected
        assert (told == expected)[~near].mean() > 0.999 and near.mean() < 0.5


def test_an_evaluation_sees_all_of_a_picture_undistorted() -> None:
    of = scene(0, 90, 120)
    change = mask_transforms.build("scale_crop+flip", Size(60, 60), is_training=False)
    found = change(of, Size(90, 120), np.random.default_rng(0))
    inside = found.mask != IGNORED
    assert inside.any(axis=1).sum() == 45 and inside.any(axis=0).sum() == 60  # 90 x 120, halved
    assert np.array_equal(found.mask[7:52], nearest(of.mask, 45, 60))


def test_scales_and_places_are_all_drawn() -> None:
    of, own, size = scene(1), Size(90, 120), Size(60, 60)
    change = mask_transforms.build("scale_crop:scale_min=0.5,scale_max=2", size, is_training=True)
    shares = [
        float((change(of, own, np.random.default_rng(seed)).mask != IGNORED).mean()) for seed in range(200)
    ]
    assert min(shares) < 0.4 and np.mean(np.array(shares) == 1) > 0.5


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (64, 48)])
def test_the_nearest_is_the_one_under_the_middle(shape: tuple[int, int]) -> None:
    mask = np.random.default_rng(0).integers(0, 200, shape).astype(np.uint8)
    for size in (shape, (1, 1), (9, 5), (130, 96)):
        found = nearest(mask, *size)
        for row in range(size[0]):
            for column in range(size[1]):
                place = (int((row + 0.5) * shape[0] / size[0]), int((column + 0.5) * shape[1] / size[1]))
                assert found[row, column] == mask[place]


def test_a_mask_stays_with_a_picture_that_was_decoded_smaller() -> None:
    of = scene(2, 128, 96)
    small = Masked(np.ascontiguousarray(of.pixels[::2, ::2]), of.mask)
    change = mask_transforms.build("none", Size(64, 64), is_training=True)
    found = change(small, Size(128, 96), np.random.default_rng(0))
    told = told_by_colour(found.pixels)
    assert (told == np.where(found.mask == IGNORED, 4, found.mask)).mean() > 0.93


@pytest.mark.parametrize(
    "augment, words",
    [
        ("flip+scale_crop", "give it first, and once"),
        ("scale_crop+scale_crop", "give it first, and once"),
        ("mosaic", "mosaic"),
        ("scale_crop:scale_max=0.01", "scale_max"),
    ],
)
def test_what_cannot_be_is_refused(augment: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        mask_transforms.build(augment, Size(8, 8), is_training=True)
