"""Mistakes in masks: which are some, and how they are told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from mxtrain.inference import worst_mistakes
from mxtrain.inference.input_samples import Input

TASK: Any = SimpleNamespace(description={"class_names": ["floor", "wall", "door"]})


def of_mask(taken_for: list[list[int]]) -> dict[str, Any]:
    return {"pixel_accuracy": 0.5, "ious": [[0, 0.75], [2, 0.0]], "taken_for": taken_for, "answered": "iVBOR"}


def test_masks_that_are_right_in_all_pixels_are_no_mistakes() -> None:
    samples = [(2.0, of_mask([[2, 1, 7]])), (9.0, of_mask([])), (3.0, of_mask([[2, 0, 1]]))]
    found = worst_mistakes.worst(TASK, ((Input(str(key), str), each) for key, each in enumerate(samples)), 5)
    assert [each.loss for each in found.worst] == [3.0, 2.0]
    assert (found.num_mistakes, found.num_samples) == (2, 3)


def test_classes_are_called_by_their_names_and_no_picture_is_printed() -> None:
    samples = iter([(Input("a.png", str), (4.0, of_mask([[2, 1, 7]])))])
    (found,) = worst_mistakes.worst(TASK, samples, 1).worst
    assert found.result["taken_for"] == [["door", "wall", 7]]
    assert worst_mistakes.in_words(found.shown) == "loss 4, IoU of floor 0.75, door 0.00; door taken for wall"
