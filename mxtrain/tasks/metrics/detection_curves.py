"""Precision over recall of detections, and their means: average precision as COCO, VOC 2012 and VOC 2007 have it.

Owns the numbers of one class, from what `detection_matching.py` says of its detections. NaN where there is no box.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Sequence

import numpy as np

from mxtrain.data.fields import Array
from mxtrain.tasks.metrics import detection_matching as matching
from mxtrain.tasks.metrics.detection_matching import AREAS, IGNORED, OVERLAPS, RIGHT

RECALLS = np.linspace(0, 1, 101)  # at which COCO reads precision
FEW = (1, 10, matching.MOST_DETECTIONS)  # detections of a class in a picture, of which COCO has a recall


class ClassCurves(NamedTuple):
    """COCO's curves of one class."""

    precision: Array  # (OVERLAPS, AREAS, RECALLS), the best from each recall on; NaN where there is no box
    recall: Array  # (OVERLAPS, AREAS), with the most detections
    recall_of_few: Array  # (OVERLAPS, FEW), of any area


def coco(outcome: Array, counts: Array, score: Array, rank: Array) -> ClassCurves:
    """Return the curves of a class, from its rows of `CocoMatches`, and the scores and ranks of its detections."""
    num_boxes = counts.sum(axis=0)
    precision = np.full((len(OVERLAPS), len(AREAS), len(RECALLS)), np.nan)
    recall = np.full(precision.shape[:2], np.nan)
    recall_of_few = np.full((len(OVERLAPS), len(FEW)), np.nan)
    outcome = outcome[np.argsort(-score, kind="stable")]
    for area in np.flatnonzero(num_boxes):
        of_area = outcome[:, :, area].T
        hits = np.cumsum(of_area == RIGHT, axis=1)
        claims = np.cumsum(of_area != IGNORED, axis=1)
        recalls = hits / num_boxes[area]
        best = _best_from_here_on(hits / (claims + np.spacing(1)))
        recall[:, area] = recalls[:, -1] if len(outcome) else 0.0
        for row, own, ends in zip(precision[:, area], best, recalls):
            position = np.searchsorted(ends, RECALLS, side="left")
            row[:] = np.append(own, 0)[position]
    if num_boxes[0]:
        ranks = rank[np.argsort(-score, kind="stable")]
        for place, most in enumerate(FEW):
            hits_of_few = (outcome[ranks < most, :, 0] == RIGHT).sum(axis=0)
            recall_of_few[:, place] = hits_of_few / num_boxes[0]
    return ClassCurves(precision, recall, recall_of_few)


def twelve(classes: Sequence[ClassCurves]) -> dict[str, float]:
    """Return COCO's twelve numbers of one class or more, means over those that have boxes; NaN where none has."""
    precision, recall, recall_of_few = (np.stack(column) for column in zip(*classes))
    sizes = ("small", "medium", "large")
    return {
        "map": _mean(precision[:, :, 0]),
        "map_50": _mean(precision[:, 0, 0]),
        "map_75": _mean(precision[:, 5, 0]),
        **{f"map_{size}": _mean(precision[:, :, area]) for area, size in enumerate(sizes, 1)},
        **{f"mar_{most}": _mean(recall_of_few[:, :, place]) for place, most in enumerate(FEW)},
        **{f"mar_{size}": _mean(recall[:, :, area]) for area, size in enumerate(sizes, 1)},
    }


def voc(outcome: Array, num_boxes: int, score: Array) -> tuple[float, float]:
    """Return the average precision of a class as VOC 2012 and as VOC 2007 have it, of the outcomes of VOC's rule."""
    if not num_boxes:
        return math.nan, math.nan
    outcome = outcome[np.argsort(-score, kind="stable")]
    hits, claims = np.cumsum(outcome == RIGHT), np.cumsum(outcome != IGNORED)
    recall, precision = hits / num_boxes, hits / np.maximum(claims, 1)
    best = _best_from_here_on(precision[None])[0]
    area = float((np.diff(recall, prepend=0) * best).sum())
    at = np.searchsorted(recall, np.arange(0, 1.1, 0.1), side="left")
    return area, float((np.append(best, 0)[at] / 11).sum())


def _best_from_here_on(values: Array) -> Array:
    best: Array = np.maximum.accumulate(values[:, ::-1], axis=1)[:, ::-1]
    return best


def _mean(values: Array) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else math.nan
