"""Labels of boxes: read in pixels, written as shares, and refused where they are none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxtrain.data.boxes import box_labels


def test_what_is_written_is_read_in_pixels_of_any_size() -> None:
    boxes = np.array([[10, 20, 50, 100, 3, 1], [0, 0, 200, 100, 0, 2]], np.float32)
    label = box_labels.label_of(boxes, 200, 100)
    assert label[:8].tolist() == pytest.approx([2, 6, 3, 0.05, 0.2, 0.25, 1, 1])
    np.testing.assert_allclose(box_labels.boxes_of(label, 200, 100), boxes, rtol=1e-6)
    np.testing.assert_allclose(box_labels.boxes_of(label, 400, 50)[0, :4], [20, 10, 100, 50], rtol=1e-6)


def test_a_picture_may_have_no_box() -> None:
    label = box_labels.label_of(np.zeros((0, 6), np.float32), 8, 8)
    assert label.tolist() == [2, 6] and box_labels.boxes_of(label, 8, 8).shape == (0, 6)


def test_labels_of_other_tools_are_read() -> None:
    label = [4, 5, 300, 500, 1, 0.1, 0.2, 0.3, 0.4]  # a header with the picture's size, boxes without flags
    np.testing.assert_allclose(box_labels.boxes_of(label, 10, 10), [[1, 2, 3, 4, 1, 0]], rtol=1e-6)


@pytest.mark.parametrize(
    "label, words",
    [
        (7.0, "one number, not boxes"),
        ([2, 6, 0, 0.1, 0.2, 0.3], "of 6 numbers begins with 2 and 6"),
        ([1, 0, 1], "begins with 1 and 0"),
        ([2, 5, np.nan, 0, 0, 1, 1], "not finite"),
        ([9, 5, 1], "begins with 9 and 5"),
    ],
)
def test_what_is_no_label_of_boxes_is_refused(label: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        box_labels.boxes_of(label, 10, 10)
