"""Detections: of all candidates in a picture the likeliest, without those that show an object once more.

A detection is class, score, x1, y1, x2, y2 in pixels of what the net sees; rows of -1 fill up behind the last one.
"""

from __future__ import annotations

from typing import Any

from mxtrain.config.values.sizes import Size
from mxtrain.data.fields import Array
from mxtrain.models.detectors.coder import BoxCoder, Candidates
from mxtrain.runtime import mx

LEAST_SCORE = 0.01
MOST_CANDIDATES = 400  # of a picture, the likeliest; those that overlap are suppressed among them
MOST = 100  # detections of a picture
MOST_OVERLAP = 0.45  # of two detections of a class, where answers to several views are put together


def of_answer(coder: BoxCoder, answer: Any, size: Size) -> Any:
    """Return what a net's answer to pictures of this size says, as `of_candidates` does."""
    return of_candidates(candidates_of(coder, answer), coder.overlap, size)


def of_both(coder: BoxCoder, answer: Any, mirrored: Any, size: Size) -> Any:
    """Return what a net's answers to pictures and to these from right to left say together, as `of_candidates` does.

    The likelier one of two boxes of a class that overlap by MOST_OVERLAP is left, also of nets whose answers need none.
    """
    scores, boxes = candidates_of(coder, answer)
    other_scores, others = candidates_of(coder, mirrored)
    x1, y1, x2, y2 = mx.nd.split(others, num_outputs=4, axis=2)
    back = mx.nd.concat(size.width - x2, y1, size.width - x1, y2, dim=2)
    both = Candidates(mx.nd.concat(scores, other_scores, dim=1), mx.nd.concat(boxes, back, dim=1))
    return of_candidates(both, min(coder.overlap, MOST_OVERLAP), size)


def candidates_of(coder: BoxCoder, answer: Any) -> Candidates:
    """Return all boxes that a net's answer tells."""
    constants = {name: mx.nd.array(each, ctx=answer.context) for name, each in coder.constants().items()}
    return coder.candidates(mx.nd, answer, constants)


def of_candidates(candidates: Candidates, overlap: float, size: Size) -> Any:
    """Return detections (pictures, at most MOST, 6), the likeliest first, cut off at the picture's border."""
    scores, boxes = candidates
    num_pictures, num_positions, num_classes = scores.shape
    count = min(MOST_CANDIDATES, num_positions * num_classes)
    scores, chosen = mx.nd.topk(
        scores.reshape((num_pictures, -1)), axis=1, k=count, ret_typ="both", dtype="int32"
    )
    classes = chosen % num_classes
    starts = mx.nd.arange(num_pictures, ctx=chosen.context, dtype="int32").reshape((-1, 1)) * num_positions
    positions = mx.nd.broadcast_add((chosen - classes) / num_classes, starts)
    rows = [classes.astype("float32").expand_dims(2), scores.expand_dims(2)]
    every = mx.nd.concat(*rows, mx.nd.take(boxes.reshape((-1, 4)), positions, axis=0), dim=2)
    left = mx.nd.contrib.box_nms(
        every,
        overlap_thresh=overlap,
        valid_thresh=LEAST_SCORE,
        id_index=0,
        score_index=1,
        coord_start=2,
        force_suppress=False,
    ).slice_axis(axis=1, begin=0, end=min(MOST, count))
    return _within(left, size)


def _within(detections: Any, size: Size) -> Any:
    """Return the detections cut off at the border of pictures of this size."""
    ends = mx.nd.array([size.width, size.height] * 2, ctx=detections.context).reshape((1, 1, 4))
    named = detections.slice_axis(axis=2, begin=0, end=2)
    inside = mx.nd.broadcast_minimum(mx.nd.maximum(detections.slice_axis(axis=2, begin=2, end=6), 0), ends)
    is_one = mx.nd.broadcast_like(named.slice_axis(axis=2, begin=0, end=1) >= 0, inside)
    return mx.nd.concat(named, mx.nd.where(is_one, inside, -mx.nd.ones_like(inside)), dim=2)


def moved(detections: Any, offsets: Array, factors: Array) -> Any:
    """Return detections less the offsets of each picture (pictures, 4), times its factors."""
    less, times = (mx.nd.array(each, ctx=detections.context).expand_dims(1) for each in (offsets, factors))
    named, boxes = (detections.slice_axis(axis=2, begin=at, end=to) for at, to in ((0, 2), (2, 6)))
    return mx.nd.concat(named, mx.nd.broadcast_mul(mx.nd.broadcast_sub(boxes, less), times), dim=2)
