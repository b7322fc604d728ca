"""Judgement of masks by an evaluation: overlaps, what became of each class, and which were taken for which.

Owns the counts of pixels, by their class and the class answered. They are whole numbers whose sums are exact: the same
to the bit whoever has computed which samples. Pixels that do not count are in none.
"""

from __future__ import annotations

import math
from typing import Any, Sequence

import numpy as np
import numpy.typing as npt

from mxtrain.config.values.sizes import Size
from mxtrain.data.augment.box_geometry import letterbox_of
from mxtrain.data.augment.mask_transforms import nearest
from mxtrain.data.fields import Array, Arrays
from mxtrain.data.masks import mask_format
from mxtrain.data.masks.mask_format import IGNORED
from mxtrain.tasks.metrics.class_report import MOST_PAIRS, shares
from mxtrain.tasks.task import Output, State

Counts = npt.NDArray[np.int64]  # (classes, classes): pixels of a class that were answered as another


class SegmentationReport:
    """A report of masks of so many classes."""

    width = 0
    names = ("miou", "pixel_accuracy", "mean_accuracy", "weighted_iou")
    lower_is_better = False

    def __init__(self, num_classes: int):
        self._num_classes = num_classes

    def state(self, output: Output, arrays: Arrays) -> State:
        """Return the pairs of classes that occur in a micro-batch, and how many pixels have each."""
        counts = self._counts(output.asnumpy(), arrays).ravel()
        pairs = np.flatnonzero(counts)
        state: State = np.concatenate([pairs, counts[pairs]]).astype(np.float64)
        return state

    def _counts(self, answered: Array, arrays: Arrays) -> Counts:
        return counts_of(arrays["mask"], answered, self._num_classes)

    def judge(self, states: Sequence[State]) -> tuple[dict[str, float], dict[str, Any]]:
        """Return the numbers by their names, and the record `classes` without its kind and place."""
        counts = np.zeros(self._num_classes**2, np.int64)
        for state in states:
            pairs, number = np.split(state.astype(np.int64), 2)
            counts[pairs] += number
        return numbers_and_record(counts.reshape(self._num_classes, -1))


class ReportOfOriginals(SegmentationReport):
    """A report of masks in the sizes of the originals: answers are scaled to them as `predict --masks` does it."""

    def _counts(self, answered: Array, arrays: Arrays) -> Counts:
        total = np.zeros((self._num_classes, self._num_classes), np.int64)
        for classes, png in zip(answered, arrays["original"]):
            mask = mask_format.decoded(png)
            total += counts_of(mask, in_original(classes, Size(*mask.shape)), self._num_classes)
        return total


def in_original(classes: Array, own: Size) -> Array:
    """Return the classes of a picture of this size, from those of the pixels of what the net sees."""
    return nearest(inside(classes, own), *own)


def inside(classes: Array, own: Size) -> Array:
    """Return the part, of the pixels of what the net sees, that is of a picture of this size."""
    box = letterbox_of(own, Size(*classes.shape))
    return classes[box.top : box.top + box.height, box.left : box.left + box.width]


def counts_of(mask: Array, answered: Array, num_classes: int) -> Counts:
    """Return how many pixels of each class were answered as each; those that are IGNORED are left out."""
    is_counted = mask != IGNORED
    pairs = mask[is_counted].astype(np.int64) * num_classes + answered[is_counted].astype(np.int64)
    return np.bincount(pairs, minlength=num_classes**2).reshape(num_classes, num_classes)


def numbers_and_record(counts: Counts) -> tuple[dict[str, float], dict[str, Any]]:
    """Return the numbers, over the classes that occur, and the record, with the IoU of each class.

    A class that no pixel has, nor was answered anywhere, has none; one that was answered alone has 0.
    """
    support, claimed, hits = counts.sum(axis=1), counts.sum(axis=0), np.diag(counts)
    union = support + claimed - hits
    ious = [hit / all_ if all_ else None for hit, all_ in zip(hits.tolist(), union.tolist())]
    recalls = [hit / count for hit, count in zip(hits.tolist(), support.tolist()) if count]
    known = [(iou, count) for iou, count in zip(ious, support.tolist()) if iou is not None]
    total = int(support.sum())
    numbers = {
        "miou": _mean([iou for iou, _ in known]),
        "pixel_accuracy": int(hits.sum()) / total if total else math.nan,
        "mean_accuracy": _mean(recalls),
        "weighted_iou": math.fsum(iou * count for iou, count in known) / total if total else math.nan,
    }
    wrong = [[i, j, int(counts[i, j])] for i, j in np.argwhere(counts).tolist() if i != j]
    wrong.sort(key=lambda each: -each[2])
    return numbers, {**shares(support, claimed, hits), "iou": ious, "confusion": wrong[:MOST_PAIRS]}


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan
