"""Judgement of detections by an evaluation: COCO's twelve numbers, VOC's two, and what became of each class.

Owns the state of a micro-batch, its detections and boxes in pixels of the original pictures, and what all of them
give. Boxes of the flags difficult and crowd count neither for nor against a detector.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Sequence

import numpy as np

from mxtrain.data.augment.box_transforms import BoxTransform
from mxtrain.data.boxes import box_fields
from mxtrain.data.boxes.box_labels import NORMAL
from mxtrain.data.fields import Array, Arrays
from mxtrain.tasks.metrics import detection_curves as curves
from mxtrain.tasks.metrics import detection_matching as matching
from mxtrain.tasks.metrics.class_report import MOST_PAIRS, shares
from mxtrain.tasks.metrics.detection_matching import IGNORED, RIGHT, Boxes, Detections
from mxtrain.tasks.task import Output, State

COLUMNS = (
    7  # of a row of a state: the picture's number in the micro-batch, then those of a box or a detection
)
SHOWN_RECALLS = 5  # every how many of the recalls a record keeps
USUAL_SCORE = 0.5  # where no detection is right


class DetectionFindings(NamedTuple):
    """The detections and the boxes of an evaluation."""

    detections: Detections
    boxes: Boxes


class DetectionReport:
    """A report of detections of so many classes, in pictures that `change` has scaled."""

    width = 0
    names = (
        *("map", "map_50", "map_75", "map_small", "map_medium", "map_large"),
        *("mar_1", "mar_10", "mar_100", "mar_small", "mar_medium", "mar_large"),
        *("voc_map", "voc07_map"),
    )
    lower_is_better = False

    def __init__(self, num_classes: int, change: BoxTransform):
        self._num_classes, self._change = num_classes, change

    def state(self, output: Output, arrays: Arrays) -> State:
        """Return the detections and boxes of a micro-batch."""
        moves = box_fields.in_originals(arrays["size"], self._change)
        detections = _rows(output.asnumpy(), 0, slice(2, 6), *moves)
        boxes = _rows(arrays["boxes"], 4, slice(0, 4), *moves)
        counts = [len(arrays["size"]), len(detections), len(boxes)]
        return np.concatenate([counts, detections.ravel(), boxes.ravel()])

    def judge(self, states: Sequence[State]) -> tuple[dict[str, float], dict[str, Any]]:
        """Return the numbers by their names, and the record `classes` without its kind and place."""
        detections, boxes = findings_of(states, self._num_classes)
        matches, outcome = matching.coco(detections, boxes), matching.voc(detections, boxes)
        of_classes, averages = [], []
        for number in range(self._num_classes):
            own = detections.group % self._num_classes == number
            of_boxes = boxes.group % self._num_classes == number
            of_class = matches.outcome[own], matches.counts[of_boxes], detections.score[own]
            of_classes.append(curves.coco(*of_class, detections.rank[own]))
            num_boxes = int((boxes.flag[of_boxes] == NORMAL).sum())
            averages.append(curves.voc(outcome[own], num_boxes, detections.score[own]))
        voc, voc07 = (_mean(column) for column in zip(*averages))
        numbers = {**curves.twelve(of_classes), "voc_map": voc, "voc07_map": voc07}
        least = _best_score(detections.score, matches.outcome[:, 0, 0], int(matches.counts[:, 0].sum()))
        return numbers, {
            **_confusion(detections, boxes, self._num_classes, least),
            "least_score": least,
            "ap": [_number(each.precision[:, 0]) for each in of_classes],
            "ap_50": [_number(each.precision[0, 0]) for each in of_classes],
            "ap_voc": [_number(average) for average, _ in averages],
            "curves": [
                [_number(value, 4) for value in each.precision[0, 0, ::SHOWN_RECALLS]] for each in of_classes
            ],
        }


def findings_of(states: Sequence[State], num_classes: int) -> DetectionFindings:
    """Return what all states hold, in the order of the pictures; what is not finite is no detection."""
    detections, boxes, num_pictures = [], [], 0
    for state in states:
        pictures, first, second = (int(count) for count in state[:3])
        rows = state[3:].reshape(first + second, COLUMNS) + np.array([num_pictures, *[0] * (COLUMNS - 1)])
        detections.append(rows[:first])
        boxes.append(rows[first:])
        num_pictures += pictures
    every, truth = np.concatenate(detections), np.concatenate(boxes)
    every = every[np.isfinite(every).all(axis=1)]
    group, of_boxes = ((rows[:, 0] * num_classes + rows[:, 1]).astype(np.int64) for rows in (every, truth))
    return DetectionFindings(
        matching.detections_in_order(group, every[:, 2:6], every[:, 6]),
        matching.boxes_in_order(of_boxes, truth[:, 2:6], truth[:, 6]),
    )


def _rows(padded: Array, column: int, corners: slice, offsets: Array, factors: Array) -> Array:
    """Return rows of picture, class, corners and the sixth number of those that are there, `column` being the class."""
    picture, place = np.nonzero(padded[:, :, column] >= 0)
    rows = padded[picture, place].astype(np.float64)
    scaled = (rows[:, corners] - offsets[picture]) * factors[picture]
    last = rows[:, 1 if column == 0 else 5]
    return np.column_stack([picture, rows[:, column], scaled, last])


def _best_score(score: Array, outcome: Array, num_boxes: int) -> float:
    """Return the score from which on detections have the largest F1, over all classes at an overlap of a half."""
    order = np.argsort(-score, kind="stable")
    hits, claims = np.cumsum(outcome[order] == RIGHT), np.cumsum(outcome[order] != IGNORED)
    if not len(order) or not hits[-1]:
        return USUAL_SCORE
    last = np.append(score[order][1:] != score[order][:-1], True)  # of those of equal scores
    f1 = np.where(last, 2 * hits / (claims + num_boxes), 0)
    return float(score[order][int(f1.argmax())])


def _confusion(every: Detections, boxes: Boxes, num_classes: int, least: float) -> dict[str, Any]:
    """Return what became of each class, with the background as the class behind the last one."""
    likely = every.score >= least
    detections = Detections(*(column[likely] for column in every))
    taken, box = matching.of_any_class(detections, boxes, num_classes)
    answered = detections.group % num_classes
    of_detection = np.full(len(answered), num_classes)  # the class of the box that each has
    of_detection[taken] = boxes.group[box] % num_classes
    counts = boxes.flag == NORMAL
    is_counted = np.ones(len(answered), bool)
    is_counted[taken] = counts[box]
    counts_still = counts.copy()
    counts_still[box] = False
    missed = boxes.group[counts_still] % num_classes
    target = np.concatenate([of_detection[is_counted], missed])
    answer = np.concatenate([answered[is_counted], np.full(len(missed), num_classes)])
    size = num_classes + 1
    matrix = np.bincount(target * size + answer, minlength=size**2).reshape(size, size)
    hits = np.diag(matrix)[:-1]
    wrong = [[i, j, int(matrix[i, j])] for i, j in np.argwhere(matrix).tolist() if i != j]
    wrong.sort(key=lambda each: -each[2])
    return {
        **shares(matrix.sum(axis=1)[:-1], matrix.sum(axis=0)[:-1], hits),
        "confusion": wrong[:MOST_PAIRS],
        "has_background": True,
    }


def _number(values: Any, digits: int = 6) -> float | None:
    mean = float(np.mean(values))
    return None if math.isnan(mean) else round(mean, digits)


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return math.fsum(known) / len(known) if known else math.nan
