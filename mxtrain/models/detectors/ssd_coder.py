"""SSDs between boxes and answers: anchors that have boxes, hard negatives, and shifts and stretches of anchors.

Owns what GluonCV's SSDTargetGenerator and SSDMultiBoxLoss compute, but that nothing is divided: the losses are sums,
their weight is the number of anchors that have a box. Hard negatives are those of each picture by itself.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Mapping, NamedTuple, Sequence

import numpy as np

from mxtrain.data.fields import Array
from mxtrain.models.detectors import box_arrays
from mxtrain.models.detectors.coder import Candidates, Losses
from mxtrain.runtime import mx
from mxtrain.runtime.types import NDArray

OVERLAP = 0.5  # of an anchor and the box that it learns, where the box has no better one
DEVIATIONS = np.array([0.1, 0.1, 0.2, 0.2], np.float32)  # shifts and stretches are divided by them
NEGATIVES = 3  # that learn for each anchor that has a box; and in a picture without any
BACKGROUND, IGNORED = 0, -1


class Targets(NamedTuple):
    """The right answers of the anchors of each picture."""

    classes: Array  # (pictures, anchors): from 1, BACKGROUND or IGNORED
    shifts: Array  # (pictures, anchors, 4)
    overlap: Array  # (pictures,): of all boxes with their best anchors together
    counts: Array  # (pictures,), of boxes


@dataclasses.dataclass(frozen=True, eq=False)
class SsdCoder:
    """The coder of an SSD with these anchors (n, 4), centre and size in pixels."""

    anchors: Array
    num_classes: int
    overlap: ClassVar[float] = 0.45
    mean_names: ClassVar[Sequence[str]] = ("class_loss", "box_loss", "anchor_overlap")

    def targets(self, boxes: Array) -> Targets:
        pairs = [self._of_picture(box_arrays.real(each)) for each in boxes]
        return Targets(*map(np.stack, zip(*pairs)))

    def _of_picture(self, boxes: Array) -> tuple[Array, Array, Array, Array]:
        is_crowd = boxes[:, box_arrays.FLAG] == box_arrays.CROWD
        objects, corners = boxes[~is_crowd], box_arrays.corners(self.anchors)
        overlaps = box_arrays.overlaps(corners, objects)
        found = box_arrays.matches(overlaps, OVERLAP)
        classes = np.full(len(corners), BACKGROUND, np.float32)
        if is_crowd.any():
            in_crowd = box_arrays.overlaps(corners, boxes[is_crowd]).max(axis=1) >= OVERLAP
            classes[in_crowd] = IGNORED
        shifts = np.zeros((len(corners), 4), np.float32)
        has_box = found >= 0
        matched, anchors = objects[found[has_box]], self.anchors[has_box]
        classes[has_box] = matched[:, box_arrays.CLASS] + 1
        centres = box_arrays.centres(matched[:, :4])
        shifts[has_box, :2] = (centres[:, :2] - anchors[:, :2]) / anchors[:, 2:] / DEVIATIONS[:2]
        shifts[has_box, 2:] = np.log(centres[:, 2:] / anchors[:, 2:]) / DEVIATIONS[2:]
        return classes, shifts, overlaps.max(axis=0).sum(), np.array(len(objects))

    def losses(self, answer: NDArray, targets: Targets) -> Losses:
        logits, shifts = self._split(answer)
        place, positive = answer.context, targets.classes > BACKGROUND
        counts = positive.sum(axis=1, keepdims=True)
        wanted, is_positive, is_negative, num_negatives, wanted_shifts = (
            mx.nd.array(each, ctx=place, dtype="float32")
            for each in (
                np.maximum(targets.classes, BACKGROUND),
                positive,
                targets.classes == BACKGROUND,
                NEGATIVES * np.maximum(counts, 1),
                targets.shifts,
            )
        )
        of_classes = -mx.nd.pick(mx.nd.log_softmax(logits, axis=2), wanted, axis=2)
        with mx.autograd.pause():
            rank = (-of_classes * is_negative).argsort(axis=1).argsort(axis=1)
            learns = is_positive + is_negative * mx.nd.broadcast_lesser(rank, num_negatives)
        of_boxes = mx.nd.smooth_l1(shifts - wanted_shifts, scalar=1.0).sum(axis=2)
        by_name = {
            "class_loss": (of_classes * learns).sum(axis=1),
            "box_loss": (of_boxes * is_positive).sum(axis=1),
        }
        means = {"anchor_overlap": (float(targets.overlap.sum()), float(targets.counts.sum()))}
        return Losses(by_name, float(counts.sum()), means)

    def constants(self) -> dict[str, Array]:
        return {"anchors": self.anchors[None]}

    def candidates(self, F: Any, answer: Any, constants: Mapping[str, Any]) -> Candidates:
        logits, shifts = self._split(answer, F)
        scores = F.slice_axis(F.softmax(logits, axis=2), axis=2, begin=1, end=None)
        return Candidates(scores, decoded(F, shifts, constants["anchors"]))

    def _split(self, answer: Any, F: Any = mx.nd) -> tuple[Any, Any]:
        cut = self.num_classes + 1
        logits = F.slice_axis(answer, axis=2, begin=0, end=cut)
        return logits, F.slice_axis(answer, axis=2, begin=cut, end=None)


def decoded(F: Any, shifts: Any, anchors: Any) -> Any:
    """Return the boxes that anchors (1, n, 4) become by shifts (pictures, n, 4)."""
    x, y, wide, high = (F.slice_axis(anchors, axis=2, begin=at, end=at + 1) for at in range(4))
    moved = [F.slice_axis(shifts, axis=2, begin=at, end=at + 1) * float(DEVIATIONS[at]) for at in range(4)]
    centre_x = F.broadcast_add(F.broadcast_mul(moved[0], wide), x)
    centre_y = F.broadcast_add(F.broadcast_mul(moved[1], high), y)
    half_x = F.broadcast_mul(F.exp(moved[2]), wide) / 2
    half_y = F.broadcast_mul(F.exp(moved[3]), high) / 2
    return F.concat(centre_x - half_x, centre_y - half_y, centre_x + half_x, centre_y + half_y, dim=2)
