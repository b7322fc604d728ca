"""Augmentation that moves boxes: each lies around the pixels of its own colour afterwards, as measured from them."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from mxtrain.config.components import augmentations
from mxtrain.config.values.sizes import Size
from mxtrain.core.errors import UsageError
from mxtrain.data.augment import box_augmentations, box_geometry, box_transforms
from mxtrain.data.augment.box_geometry import VISIBLE, Boxed
from mxtrain.data.boxes.box_labels import CROWD
from mxtrain.data.decode.jpeg import Box

COLOURS = np.array([[255 * (number >> bit & 1) for bit in range(3)] for number in range(1, 8)], np.uint8)
TURNS = 60  # of each augmentation
NET, PICTURE = Size(96, 128), Size(90, 120)


def rectangles(seed: int, classes: Any = range(4), size: Size = PICTURE) -> Boxed:
    """A black picture of rectangles that do not touch, the class of each its colour."""
    rng = np.random.default_rng(seed)
    pixels, boxes = np.zeros((*size, 3), np.uint8), []
    columns = np.linspace(0, size.width, len(classes) + 1).astype(int)
    for number, left, right in zip(classes, columns, columns[1:]):
        x1, x2 = left + rng.integers(1, 6), right - rng.integers(2, 8)
        y1, y2 = rng.integers(0, size.height // 2 - 5), size.height - rng.integers(0, size.height // 2 - 5)
        pixels[y1:y2, x1:x2] = COLOURS[number]
        boxes.append([x1, y1, x2, y2, number, 0])
    return Boxed(pixels, np.array(boxes, np.float32))


def measured(pixels: Any, number: int) -> Any:
    """The box around the pixels of a colour and how many there are; None without any."""
    difference = np.abs(pixels.astype(np.int16) - np.int16(COLOURS[number]))
    own = (difference[..., 0] < 100) & (difference[..., 1] < 100) & (difference[..., 2] < 100)
    rows, columns = np.flatnonzero(own.any(axis=1)), np.flatnonzero(own.any(axis=0))
    if not len(rows):
        return None
    return [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1], own.sum()


def assert_true(made: Boxed, classes: Any, tolerance: float = 1.01) -> int:
    """Each box is where its pixels are, and no colour that is seen well has lost its box; there are so many boxes."""
    assert made.pixels.dtype == np.uint8 and made.boxes.dtype == np.float32
    boxes = {int(box[4]): box for box in made.boxes}
    assert len(boxes) == len(made.boxes)
    for number, box in boxes.items():
        corners, _ = measured(made.pixels, number)
        np.testing.assert_allclose(box[:4], corners, rtol=0, atol=tolerance)
    for number in set(classes) - set(boxes):
        seen = measured(made.pixels, number)
        assert seen is None or min(np.diff(np.reshape(seen[0], (2, 2)), axis=0).ravel()) < 40
    return len(boxes)


@pytest.mark.parametrize(
    "name, numbers",
    [
        ("flip", {"p": 0.5}),
        ("vertical_flip", {"p": 0.5}),
        ("expand", {"p": 1.0, "ratio_max": 4.0}),
        ("iou_crop", {"p": 1.0, "scale_min": 0.3, "scale_max": 1.0, "ratio_max": 2.0}),
        ("scale_jitter", {"scale_min": 0.5, "scale_max": 2.0}),
    ],
)
def test_boxes_move_with_what_they_are_around(name: str, numbers: dict[str, float]) -> None:
    counts, sizes = [], set()
    for seed in range(TURNS):
        before = rectangles(seed)
        kept = before.pixels.copy(), before.boxes.copy()
        made = getattr(box_augmentations, name)(before, np.random.default_rng(seed), **numbers)
        counts.append(assert_true(made, range(4)))
        sizes.add(made.size)
        assert all(np.array_equal(*pair) for pair in zip(before, kept)), "written to its argument"
    assert max(counts) == 4
    assert (len(sizes) > 1) == (name in ("expand", "iou_crop"))
    assert min(counts) == 4 or name in ("iou_crop", "scale_jitter")
    assert min(counts) >= 1


@pytest.mark.parametrize(
    "order", ["expand:p=1,ratio_max=2+iou_crop:p=1+{}", "{}+iou_crop:p=1+expand:p=1,ratio_max=2"]
)
@pytest.mark.parametrize("turn", ["flip", "vertical_flip", "scale_jitter"])
def test_boxes_move_through_several_changes_and_to_the_nets_size(order: str, turn: str) -> None:
    change = box_transforms.build(order.format(turn), NET, is_training=True)
    counts = []
    for seed in range(TURNS):
        made = change(rectangles(seed), np.random.default_rng(seed), other=lambda: rectangles(0))
        assert made.size == NET
        counts.append(assert_true(made, range(4), tolerance=1.5))
    assert max(counts) == 4 and min(counts) >= (turn != "scale_jitter")


def test_what_is_outside_is_gray_and_what_is_inside_stays_as_it_is() -> None:
    before = rectangles(0)
    made = box_geometry.cut(before, Box(-10, 20, 60, 300))
    wanted = np.full((60, 300, 3), box_geometry.OUTSIDE, np.uint8)
    wanted[10:, :100] = before.pixels[:50, 20:]
    assert np.array_equal(made.pixels, wanted)
    inside = box_geometry.cut(made, Box(10, 0, 50, 100))
    assert np.array_equal(inside.pixels, before.pixels[:50, 20:])
    mirrored = box_geometry.mirrored(made)
    assert np.array_equal(mirrored.pixels, wanted[:, ::-1])
    assert np.array_equal(box_geometry.mirrored(made, is_vertical=True).pixels, wanted[::-1])
    nothing = box_geometry.cut(made, Box(0, 200, 20, 20))
    for each in (nothing, box_geometry.mirrored(nothing), box_geometry.resized(nothing, NET)):
        assert np.array_equal(each.pixels, box_geometry.blank(each.size))


def test_a_picture_is_expanded_without_its_surroundings_being_drawn() -> None:
    before = rectangles(0)
    change = box_transforms.build("expand:p=1,ratio_max=16+flip:p=1", NET, is_training=True)
    change(before, np.random.default_rng(0), lambda: before)
    tracemalloc.start()
    change(before, np.random.default_rng(1), lambda: before)  # 15 times as high and wide
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * (before.pixels.nbytes + NET.height * NET.width * 3)


def test_fitting_to_the_net() -> None:
    for seed, size in enumerate((Size(90, 120), Size(200, 100), Size(50, 300), Size(96, 128))):
        before = rectangles(seed, range(3), size)
        assert assert_true(box_geometry.resized(before, NET), range(3)) == 3
        made = box_geometry.letterboxed(before, NET)
        assert made.size == NET and assert_true(made, range(3)) == 3
        shapes = [np.diff(each.boxes[:, [0, 2]]) / np.diff(each.boxes[:, [1, 3]]) for each in (before, made)]
        np.testing.assert_allclose(*shapes, rtol=0.03)  # undistorted, but for whole pixels


def test_mosaic() -> None:
    classes = ([0, 1], [2, 3], [4, 5], [6])
    counts = []
    for seed in range(TURNS):
        sizes = (Size(90, 120), Size(60, 200), Size(100, 50), Size(96, 128))
        pictures = [rectangles(seed + 100 * i, each, sizes[i]) for i, each in enumerate(classes)]
        made = box_augmentations.mosaic(pictures, np.random.default_rng(seed), NET)
        assert made.size == Size(2 * NET.height, 2 * NET.width)
        counts.append(assert_true(made, range(7)))
    assert max(counts) == 7 and min(counts) < 7


def test_mixup_has_the_boxes_of_pictures_that_can_be_seen() -> None:
    counts = set()
    for seed in range(TURNS):
        one = rectangles(seed, [0], Size(90, 120))  # red
        two = rectangles(seed, [3], Size(180, 240))  # blue
        made = box_augmentations.mixup(one, two, np.random.default_rng(seed), alpha=1.5)
        share = made.pixels.reshape(-1, 3).max(axis=0)[[0, 2]] / 255
        assert share.sum() == pytest.approx(1, abs=0.01)
        assert {int(box[4]) for box in made.boxes} == {c for c, part in zip((0, 3), share) if part > VISIBLE}
        for box in made.boxes:
            plane = made.pixels[:, :, 0 if box[4] == 0 else 2]
            rows, columns = np.nonzero(plane > plane.max() / 2)
            corners = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
            np.testing.assert_allclose(box[:4], corners, atol=1.01)
        counts.add(len(made.boxes))
    assert counts == {1, 2}


def test_colours_leave_boxes_where_they_are() -> None:
    before = rectangles(0)
    specs = augmentations.parse_of_boxes("colour_jitter:hue=0.1+grayscale:p=1+lighting")
    change = box_transforms.BoxTransform(tuple(specs), before.size, is_letterboxed=False)
    made = change(before, np.random.default_rng(0), lambda: before)
    assert np.array_equal(made.boxes, before.boxes) and not np.array_equal(made.pixels, before.pixels)


def test_the_default_leaves_colours_of_a_sixteenth_and_bleaches_few_bright_pictures() -> None:
    """Each of the four changes comes to half of the pictures, so that what is bright and pale can be told apart."""
    pixels = np.full((32, 32, 3), (225, 215, 220), np.uint8)
    pixels[8:24, 8:24] = (190, 160, 180)
    before = Boxed(pixels, np.zeros((0, 6), np.float32))
    specs = augmentations.parse_of_boxes(augmentations.OF_BOXES.split("+")[0])
    change = box_transforms.BoxTransform(tuple(specs), before.size, is_letterboxed=False)
    made = [change(before, np.random.default_rng(seed), lambda: before).pixels for seed in range(600)]
    assert np.mean([np.array_equal(each, pixels) for each in made]) == pytest.approx(1 / 16, abs=0.03)
    assert np.mean([(each[0, 0] == 255).all() for each in made]) < 0.05, "white, and so lost"


def test_which_boxes_stay() -> None:
    boxes = np.array([[0, 0, 10, 10, 0, 0], [0, 0, 10, 10, 0, CROWD], [20, 20, 30, 30, 1, 0]], np.float32)
    kept = box_geometry.visible(boxes, Box(0, 7, 40, 40))  # 0.3 of the first two
    assert kept.tolist() == [[0, 0, 3, 10, 0, 0], [0, 0, 3, 10, 0, CROWD], [13, 20, 23, 30, 1, 0]]
    kept = box_geometry.visible(boxes, Box(0, 8, 40, 40))
    assert kept[:, 5].tolist() == [CROWD, 0]


def test_a_picture_without_boxes_and_one_of_a_crowd() -> None:
    everything = "mosaic+mixup:p=1+expand:p=1+iou_crop:p=1+scale_jitter+flip+letterbox"
    change = box_transforms.build(everything, NET, is_training=True)
    empty = Boxed(rectangles(0).pixels, np.zeros((0, 6), np.float32))
    crowd = Boxed(empty.pixels, np.array([[0, 0, 120, 90, 1, CROWD]], np.float32))
    for seed in range(10):
        made = change(empty, np.random.default_rng(seed), lambda: empty)
        assert made.size == NET and made.boxes.shape == (0, 6)
        assert (change(crowd, np.random.default_rng(seed), lambda: crowd).boxes[:, 5] == CROWD).all()


def double(image: Any, boxes: Any, rng: Any) -> tuple[Any, Any]:
    return np.repeat(np.repeat(image, 2, axis=0), 2, axis=1), boxes * [2, 2, 2, 2, 1, 1]


def nothing(image: Any, boxes: Any, rng: Any) -> Any:
    return image


def test_a_change_of_ones_own() -> None:
    before = rectangles(0)
    change = box_transforms.build(f"{__name__}:double", before.size, is_training=True)
    made = change(before, np.random.default_rng(0), lambda: before)
    np.testing.assert_allclose(made.boxes, before.boxes)
    wrong = box_transforms.build(f"{__name__}:nothing", NET, is_training=True)
    with pytest.raises(UsageError, match="has to return a picture"):
        wrong(before, np.random.default_rng(0), lambda: before)


@pytest.mark.parametrize(
    "text, message",
    [
        ("flip+mosaic", "give mosaic first, each once"),
        ("mosaic+mosaic", "give mosaic, mosaic first, each once"),
        ("letterbox+flip", "give it last"),
        ("iou_crops", "did you mean 'iou_crop'"),
        ("expand:ratio=2", "no number 'ratio'"),
    ],
)
def test_what_cannot_be_said(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        augmentations.parse_of_boxes(text)
