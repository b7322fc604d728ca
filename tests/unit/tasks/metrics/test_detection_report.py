"""Numbers of detections: pycocotools' own, the same in micro-batches of any size, and what was confused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from mxtrain.config.values.sizes import Size
from mxtrain.data.augment.box_transforms import BoxTransform
from mxtrain.tasks.metrics.detection_report import DetectionReport
from tests.support.detections.cases import NUM_CASES, Output, case, judged
from tests.support.detections.reference import KEPT


def report(
    boxes: Any, detections: Any, num_classes: int = 2, sizes: Any = None, micro_batch: int = 1
) -> tuple[dict[str, float], dict[str, Any]]:
    """The numbers and the record of pictures of 100 pixels."""
    of = DetectionReport(num_classes, BoxTransform((), Size(100, 100), is_letterboxed=False))
    boxes, detections = (np.array(each, np.float32) for each in (boxes, detections))
    sizes = np.full((len(boxes), 2), 100, np.float32) if sizes is None else np.array(sizes, np.float32)
    states = []
    for start in range(0, len(boxes), micro_batch):
        part = slice(start, start + micro_batch)
        states.append(of.state(Output(detections[part]), {"boxes": boxes[part], "size": sizes[part]}))
    return of.judge(states)


# Each fourth case.
@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in (1, 2, 3))])
def test_numbers_are_those_of_pycocotools(first: int) -> None:
    kept = np.load(KEPT)
    assert len(kept) == NUM_CASES
    names = DetectionReport.names[:12]
    for number in range(first, NUM_CASES, 4):
        of_case = judged(case(number))
        numbers = np.nan_to_num([of_case[name] for name in names], nan=-1)
        np.testing.assert_allclose(numbers, kept[number], rtol=0, atol=1e-9, err_msg=f"case {number}")


def test_numbers_do_not_depend_on_micro_batches() -> None:
    of = case(50)
    sizes = np.full((len(of.boxes), 2), 100)
    results = [
        report(of.boxes, of.detections, of.num_classes, sizes, micro_batch) for micro_batch in (1, 2, 3, 8)
    ]
    assert all(str(result) == str(results[0]) for result in results)


def test_areas_are_those_of_the_original_pictures() -> None:
    boxes = [[[0, 0, 50, 50, 0, 0]]]
    detections = [[[0, 0.9, 0, 0, 50, 50]]]
    medium, _ = report(boxes, detections)
    assert medium["map_medium"] == pytest.approx(1) and math.isnan(medium["map_small"])
    small, _ = report(boxes, detections, sizes=[[40, 60]])
    assert small["map_small"] == pytest.approx(1) and math.isnan(small["map_medium"])


def test_what_became_of_each_class() -> None:
    boxes = [
        [[0, 0, 20, 20, 0, 0], [40, 40, 60, 60, 0, 0], [70, 70, 90, 90, 1, 0], [0, 70, 20, 90, 1, 1]],
    ]
    detections = [
        [
            [0, 0.9, 0, 0, 20, 20],  # right
            [1, 0.8, 40, 40, 60, 60],  # of the other class
            [0, 0.7, 0, 40, 20, 60],  # of nothing
            [1, 0.9, 0, 70, 20, 90],  # of a difficult one
            [1, 0.95, 70, 71, 90, 91],  # right
            [0, 0.1, 70, 70, 90, 90],  # less likely than the best score
        ]
    ]
    _, record = report(boxes, detections)
    assert record["least_score"] == pytest.approx(0.9)
    assert record["support"] == [2, 1] and record["recall"] == [0.5, 1] and record["precision"] == [1, 1]
    assert record["confusion"] == [[0, 2, 1]]  # the second box was missed: its detection is not likely enough
    assert len(record["curves"]) == 2 and record["curves"][1][0] == 1


def test_nothing_at_all_and_what_is_not_finite() -> None:
    nothing = np.full((2, 1, 6), -1)
    numbers, record = report(nothing, nothing)
    assert all(math.isnan(value) for value in numbers.values())
    assert record["support"] == [0, 0] and record["ap"] == [None, None]
    numbers, _ = report([[[0, 0, 20, 20, 0, 0]]], [[[0, math.nan, 0, 0, 20, 20]]])
    assert numbers["map"] == numbers["voc_map"] == 0
