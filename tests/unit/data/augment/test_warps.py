"""Shapes against PIL, and to the pixel where a small case can be written down."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest
from PIL import Image

from mxtrain.data.augment import warps


def smooth() -> Any:
    down, across = np.mgrid[0:80, 0:80]
    planes = [127 + 120 * np.sin(down / 9), 127 + 120 * np.cos(across / 11), down + across]
    return np.stack(planes, -1).astype(np.uint8)


def difference_inside(ours: Any, theirs: Any) -> float:
    """At the frame PIL takes the nearest pixel, where OpenCV blends into what lies outside."""
    return float(np.abs(ours.astype(int) - np.asarray(theirs).astype(int))[20:60, 20:60].max())


@pytest.mark.parametrize("degrees", [-30, 5, 20])
def test_rotation_is_that_of_pil(degrees: float) -> None:
    theirs = Image.fromarray(smooth()).rotate(degrees, Image.BILINEAR)
    assert difference_inside(warps.rotate(smooth(), degrees), theirs) <= 2


@pytest.mark.parametrize("size", [7, 8])
def test_a_quarter_turn_goes_counter_clockwise_and_loses_nothing(size: int) -> None:
    image = smooth()[:size, :size]
    np.testing.assert_array_equal(warps.rotate(image, 90), np.rot90(image))
    np.testing.assert_array_equal(warps.rotate(image, 0), image)


@pytest.mark.parametrize("slope", [-0.3, 0.1])
@pytest.mark.parametrize(
    ("shear", "affine"),
    [(warps.shear_x, lambda s: (1, s, 0, 0, 1, 0)), (warps.shear_y, lambda s: (1, 0, 0, s, 1, 0))],
)
def test_shears_are_those_of_pil(shear: Callable[..., Any], affine: Callable[..., Any], slope: float) -> None:
    theirs = Image.fromarray(smooth()).transform((80, 80), Image.AFFINE, affine(slope), Image.BILINEAR)
    assert difference_inside(shear(smooth(), slope), theirs) <= 2
    assert difference_inside(shear(smooth(), slope), smooth()) > 10


def test_translations_move_whole_pixels_and_leave_gray() -> None:
    image, gray = smooth()[:10, :10], np.array(warps.OUTSIDE)
    moved = warps.translate_x(image, 0.3)
    np.testing.assert_array_equal(moved[:, :7], image[:, 3:])
    assert (moved[:, 7:] == gray).all()
    moved = warps.translate_y(image, -0.2)
    np.testing.assert_array_equal(moved[2:], image[:8])
    assert (moved[:2] == gray).all()
