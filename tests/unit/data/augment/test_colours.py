"""Colours against PIL, which the papers used, and against small cases by hand."""

from __future__ import annotations

import colorsys
from typing import Any, Callable

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps

from mxtrain.data.augment import colours

FACTORS = (0, 0.1, 0.5, 1, 1.4, 1.9)


def photo() -> Any:
    """A picture with all colours, edges and smooth parts."""
    down, across = np.mgrid[0:96, 0:128]
    planes = np.stack([down * 2, across * 2, 255 - down - across], -1)
    checks = 90 * ((down // 5 + across // 5) % 2)
    return np.clip(planes + checks[:, :, None] - 20, 0, 255).astype(np.uint8)


def pale() -> Any:
    return photo() // 3 + np.array([40, 60, 90], np.uint8)


def difference(ours: Any, theirs: Any) -> int:
    return int(np.abs(ours.astype(int) - np.asarray(theirs).astype(int)).max())


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize(
    ("change", "reference"),
    [
        (colours.brightness, ImageEnhance.Brightness),
        (colours.contrast, ImageEnhance.Contrast),
        (colours.saturation, ImageEnhance.Color),
        (colours.sharpness, ImageEnhance.Sharpness),
    ],
)
@pytest.mark.parametrize("picture", [photo, pale])
def test_enhancements_are_those_of_pil(
    change: Callable[..., Any], reference: Any, picture: Callable[[], Any], factor: float
) -> None:
    theirs = reference(Image.fromarray(picture())).enhance(factor)
    assert difference(change(picture(), factor), theirs) <= 2
    if factor != 1:
        assert difference(change(picture(), factor), picture()) > 2


@pytest.mark.parametrize(
    "change", [colours.brightness, colours.contrast, colours.saturation, colours.sharpness]
)
def test_a_factor_of_one_leaves_every_pixel(change: Callable[..., Any]) -> None:
    np.testing.assert_array_equal(change(photo(), 1.0), photo())


@pytest.mark.parametrize(
    "picture", [photo, pale, lambda: pale()[:2, :3], lambda: np.full((5, 5, 3), 7, np.uint8)]
)
def test_what_has_no_fractions_is_as_pil_to_the_pixel(picture: Callable[[], Any]) -> None:
    image = Image.fromarray(picture())
    for threshold in (0, 26, 128, 256):
        theirs = np.asarray(ImageOps.solarize(image, threshold))
        np.testing.assert_array_equal(colours.solarize(picture(), threshold), theirs)
    for bits in range(1, 9):
        theirs = np.asarray(ImageOps.posterize(image, bits))
        np.testing.assert_array_equal(colours.posterize(picture(), bits), theirs)
    np.testing.assert_array_equal(colours.equalize(picture()), np.asarray(ImageOps.equalize(image)))
    assert difference(colours.autocontrast(picture()), ImageOps.autocontrast(image)) <= 1


def test_brightness_and_contrast_by_hand() -> None:
    image = np.array([[[0, 100, 200], [10, 20, 255]]], np.uint8)
    np.testing.assert_array_equal(colours.brightness(image, 1.5), [[[0, 150, 255], [15, 30, 255]]])
    gray = np.array([[[40] * 3, [60] * 3]], np.uint8)  # their mean is 50
    np.testing.assert_array_equal(colours.contrast(gray, 2), [[[30] * 3, [70] * 3]])
    np.testing.assert_array_equal(colours.contrast(gray, 0), [[[50] * 3, [50] * 3]])


def test_gray_weighs_the_channels_as_the_eye_does() -> None:
    image = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255]]], np.uint8)
    np.testing.assert_array_equal(colours.gray(image), [[[76] * 3, [150] * 3, [29] * 3]])


def test_a_shift_moves_each_channel_and_stops_at_the_ends() -> None:
    image = np.array([[[0, 100, 250]]], np.uint8)
    np.testing.assert_array_equal(colours.shift(image, np.array([-5.0, 2.4, 20.0])), [[[0, 102, 255]]])


def test_a_third_of_the_colour_circle_makes_red_green_and_green_blue() -> None:
    image = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255], [90, 90, 90]]], np.uint8)
    turned = [[[0, 255, 0], [0, 0, 255], [255, 0, 0], [90, 90, 90]]]
    assert difference(colours.hue(image, 1 / 3), turned) <= 3  # 256 steps do not hold a third


@pytest.mark.parametrize("turn", [-0.5, -0.1, 0, 0.05, 0.25, 0.5, 1])
def test_hue_is_the_exact_one_up_to_its_eight_bits(turn: float) -> None:
    image = photo()[::6, ::8]
    exact = np.empty(image.shape)
    for place in np.ndindex(*image.shape[:2]):
        angle, saturation, value = colorsys.rgb_to_hsv(*(image[place] / 255))
        exact[place] = 255 * np.array(colorsys.hsv_to_rgb((angle + turn) % 1, saturation, value))
    differences = np.abs(colours.hue(image, turn) - exact)
    assert differences.max() <= 10
    assert differences.mean() <= 1
