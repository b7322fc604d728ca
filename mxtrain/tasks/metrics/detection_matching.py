"""Which detection is of which box: the rules of COCO and of Pascal VOC, and pairs of any class for a confusion matrix.

Owns overlaps and matching, in NumPy alone. What follows from matches, average precisions, is `detection_curves.py`'s.
"""

from __future__ import annotations

from typing import Iterator, NamedTuple

import numpy as np

from mxtrain.data.boxes.box_labels import CROWD, NORMAL
from mxtrain.data.fields import Array

LEAST_OVERLAP = 0.5  # of what any rule takes for one object
OVERLAPS = np.linspace(0.5, 0.95, 10)  # COCO's thresholds
ALMOST_ONE = 1 - 1e-10
AREAS = np.array([[0, 1e10], [0, 32**2], [32**2, 96**2], [96**2, 1e10]])  # all, small, medium, large
MOST_DETECTIONS = 100  # of a class in a picture, the likeliest
MISSED, RIGHT, IGNORED = 0, 1, 2  # what became of a detection
MOST_PAIRS = 1 << 20  # at once


class Boxes(NamedTuple):
    """Boxes of many pictures; those of a group, a picture and a class, lie together, in the order of the groups."""

    group: Array  # int64: picture * number of classes + class
    corners: Array  # float64 (n, 4): x1, y1, x2, y2
    flag: Array

    @property
    def areas(self) -> Array:
        """The areas."""
        return areas(self.corners)


class Detections(NamedTuple):
    """Detections of many pictures, in the order of their groups, and of a group the likeliest first."""

    group: Array
    corners: Array
    score: Array
    rank: Array  # in the group, from 0


class Pairs(NamedTuple):
    """Detections and boxes that overlap by LEAST_OVERLAP or more, in the order of both."""

    detection: Array
    box: Array
    overlap: Array


def areas(corners: Array) -> Array:
    """Return the area of each box (n, 4)."""
    product: Array = (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])
    return product


def boxes_in_order(group: Array, corners: Array, flag: Array) -> Boxes:
    """Return boxes in the order of their groups, those of a group as they came."""
    order = np.argsort(group, kind="stable")
    return Boxes(group[order], corners[order], flag[order])


def detections_in_order(group: Array, corners: Array, score: Array) -> Detections:
    """Return detections in order; of equal scores, the one that came first is first."""
    order = np.lexsort((-score, group))
    group = group[order]
    starts = np.searchsorted(group, group)
    return Detections(group, corners[order], score[order], np.arange(len(group)) - starts)


def pairs(
    group: Array, corners: Array, box_group: Array, boxes: Array, is_crowd: Array, border: float = 0.0
) -> Pairs:
    """Return the detections and boxes of one group that overlap, by intersection over union.

    `box_group` ascends. Over a crowd it is the intersection over the detection's own area. `border` is added to the
    right and the lower side of all, 1 where coordinates are those of pixels inside.
    """
    corners, boxes = (each + np.array([0, 0, border, border]) for each in (corners, boxes))
    own, other = areas(corners), areas(boxes)
    parts = [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))]
    for detection, box in _candidates(group, box_group):
        one, two = corners[detection].T, boxes[box].T
        wide = np.minimum(one[2], two[2]) - np.maximum(one[0], two[0])
        high = np.minimum(one[3], two[3]) - np.maximum(one[1], two[1])
        shared = np.maximum(wide, 0) * np.maximum(high, 0)
        union = own[detection] + np.where(is_crowd[box], 0, other[box] - shared)
        overlap = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
        is_pair = overlap >= LEAST_OVERLAP
        parts.append((detection[is_pair], box[is_pair], overlap[is_pair]))
    return Pairs(*(np.concatenate(each) for each in zip(*parts)))


def _candidates(group: Array, box_group: Array) -> Iterator[tuple[Array, Array]]:
    """Yield the positions of detections and boxes of one group, not too many at once."""
    first = np.searchsorted(box_group, group, "left")
    count = np.searchsorted(box_group, group, "right") - first
    ends = np.cumsum(count)
    start = 0
    while start < len(group):
        done = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + MOST_PAIRS, "right")))
        counts = count[start:stop]
        detection = np.repeat(np.arange(start, stop), counts)
        within = np.arange(len(detection)) - np.repeat(np.cumsum(counts) - counts, counts)
        yield detection, first[detection] + within
        start = stop


class CocoMatches(NamedTuple):
    """Matches by COCO's rule, of each detection and each box."""

    outcome: Array  # int8 (detections, OVERLAPS, AREAS): MISSED, RIGHT or IGNORED
    counts: Array  # bool (boxes, AREAS): whether the box is one to be detected


def coco(detections: Detections, boxes: Boxes) -> CocoMatches:
    """Match as COCO does: the likeliest detection takes the box that it overlaps most of those left in its group.

    A box that does not count, for its flag or its area, is taken where no other is, and makes its detection count
    neither. A crowd can be taken any number of times. Of equal overlaps it is the later box.
    """
    counts = (boxes.flag == NORMAL)[:, None] & _in_areas(boxes.areas)
    outcome = np.zeros((len(detections.group), len(OVERLAPS), len(AREAS)), np.int8)
    is_taken = np.zeros((len(boxes.group), len(OVERLAPS), len(AREAS)), bool)
    is_crowd = boxes.flag == CROWD
    is_left_out = detections.rank >= MOST_DETECTIONS
    every = pairs(detections.group, detections.corners, boxes.group, boxes.corners, is_crowd)
    every = Pairs(*(column[~is_left_out[every.detection]] for column in every))
    for turn in _turns(every, detections.group):
        starts = np.flatnonzero(np.append(True, turn.detection[1:] != turn.detection[:-1]))
        is_enough = turn.overlap[:, None] >= np.minimum(OVERLAPS, ALMOST_ONE)
        is_open = is_enough[:, :, None] & ~(is_taken[turn.box] & ~is_crowd[turn.box, None, None])
        # The later in the turn is the better one; those that count are better than all others.
        place, size = np.arange(1, len(turn.box) + 1), len(turn.box) + 1
        worth = (place[:, None] + size * counts[turn.box])[:, None, :] * is_open
        best = np.maximum.reduceat(worth, starts, axis=0)
        row, threshold, area = np.nonzero(best)
        worths = best[row, threshold, area]
        is_taken[turn.box[worths % size - 1], threshold, area] = True
        outcome[turn.detection[starts[row]], threshold, area] = np.where(worths > size, RIGHT, IGNORED)
    is_outside = ~_in_areas(areas(detections.corners))
    outcome[(outcome == MISSED) & is_outside[:, None, :]] = IGNORED
    outcome[is_left_out] = IGNORED
    return CocoMatches(outcome, counts)


def _turns(every: Pairs, group: Array) -> Iterator[Pairs]:
    """Yield the pairs of the first detections of all groups that have pairs, then of the second, and so on.

    The pairs of a detection are in the order of overlaps, and of equal ones in that of boxes.
    """
    detection, which = np.unique(every.detection, return_inverse=True)
    of_detection = group[detection]
    turn = (np.arange(len(detection)) - np.searchsorted(of_detection, of_detection))[which.reshape(-1)]
    order = np.lexsort((every.box, every.overlap, every.detection, turn))
    ends: list[int] = np.cumsum(np.bincount(turn)).tolist() if len(turn) else []
    for start, stop in zip([0, *ends], ends):
        yield Pairs(*(column[order[start:stop]] for column in every))


def _in_areas(sizes: Array) -> Array:
    return (sizes[:, None] >= AREAS[:, 0]) & (sizes[:, None] <= AREAS[:, 1])


def voc(detections: Detections, boxes: Boxes) -> Array:
    """Match as Pascal VOC does, and return int8 outcomes of detections.

    A detection belongs to the box of its group that it overlaps most, by a half or more, and is right if no likelier
    one does. One of a box that is difficult, or a crowd, counts neither. Coordinates are those of pixels inside.
    """
    no_crowd = np.zeros(len(boxes.group), bool)
    every = pairs(detections.group, detections.corners, boxes.group, boxes.corners, no_crowd, border=1)
    order = np.lexsort((every.box, -every.overlap, every.detection))
    detection, first = np.unique(every.detection[order], return_index=True)
    box = every.box[order][first]
    is_first = np.zeros(len(box), bool)
    is_first[np.unique(box, return_index=True)[1]] = (
        True  # detections are in order, of a group the likeliest first
    )
    outcome = np.zeros(len(detections.group), np.int8)
    outcome[detection] = np.where(boxes.flag[box] != NORMAL, IGNORED, np.where(is_first, RIGHT, MISSED))
    return outcome


def of_any_class(detections: Detections, boxes: Boxes, num_classes: int) -> tuple[Array, Array]:
    """Return the positions of detections and boxes that are pairs: those of the largest overlap first, each once."""
    pictures, of_boxes = detections.group // num_classes, boxes.group // num_classes
    every = pairs(pictures, detections.corners, of_boxes, boxes.corners, boxes.flag == CROWD)
    order = np.lexsort((every.box, every.detection, -every.overlap))
    chosen: dict[int, int] = {}
    taken: set[int] = set()
    is_crowd = (boxes.flag == CROWD)[every.box[order]].tolist()
    for detection, box, crowd in zip(every.detection[order].tolist(), every.box[order].tolist(), is_crowd):
        if detection not in chosen and (crowd or box not in taken):
            chosen[detection] = box
            taken.add(box)
    return np.array(list(chosen), np.int64), np.array(list(chosen.values()), np.int64)
