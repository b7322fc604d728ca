"""Findings about detectors: boxes that are not found, and which of the usual reasons the numbers speak for."""

from __future__ import annotations

import numpy as np

from mxtrain.report.diagnosis.finding import Finding, median, numbers, percent, setting, steps_of
from mxtrain.report.history import History, Record

NEARLY_NONE = 0.01  # an average precision at overlaps of a half, below which nothing is found
FEWEST_STEPS = 100
NEWEST = 3  # evaluations whose median counts
MOST_OTHERS = 0.5  # of the boxes that overlap a detection: above, classes are mixed up
SOME_RECALL = 0.1  # with which boxes lie right, whatever their scores
LEAST_OVERLAP = 0.45  # of boxes with their best anchors: SSDs learnt shapes with 0.52, and hardly with 0.42
NEWEST_STEPS = 20
FALLEN = 0.9  # of the first training loss: where it has not come below, nothing is learnt at all


def not_found(history: History) -> Finding | None:
    """The mean average precision is next to 0 after many steps."""
    evaluations = [each for each in history.of_kind("eval") if "val_map_50" in each]
    precision = numbers(evaluations[-NEWEST:], "val_map_50")
    if len(precision) < NEWEST or history.num_steps < FEWEST_STEPS or not median(precision) < NEARLY_NONE:
        return None
    recall = median(numbers(evaluations[-NEWEST:], "val_mar_100"))
    evidence = [
        f"val_map_50 is {median(precision):.4f} over the last {NEWEST} evaluations, and 100 detections a picture "
        f"reach a recall of {percent(recall)}."
    ]
    others = share_of_other_classes(history.of_kind("classes")[-1:])
    losses = history.column("loss")
    window = max(10, len(losses) // 10)
    has_learnt = median(losses[-window:]) < FALLEN * median(losses[:window])
    if others > MOST_OTHERS:
        evidence.append(f"Of the boxes that a detection lies on, {percent(others)} are of another class.")
        advice = "--val packed with the same list of classes as --train, numbered from 0: they are mixed up"
    elif not has_learnt:
        evidence.append("The training loss has not fallen by a tenth either.")
        advice = (
            "--overfit 1: whether a net can learn one batch; if not, boxes may be wrong (`python -m "
            "tools.im2rec_wrapper check` and `show`), else give --pretrained a backbone, or another --lr"
        )
    elif recall < SOME_RECALL:
        evidence.append("Detections are not where boxes are, though the training loss has fallen.")
        advice = (
            f"--image-size above {setting(history, 'image_size', 'this one')}: boxes smaller than the smallest anchors "
            "match none; or the pictures of --train and --val are not alike, as where one has boxes in other pixels"
        )
    else:
        evidence.append("Boxes are hit, but with lower scores than what is none.")
        epochs = setting(history, "epochs", "these")
        advice = f"--epochs above {epochs}: the net does not tell objects from background yet"
    return Finding("boxes-not-found", "Boxes are not found", tuple(evidence), advice, steps_of(history))


def share_of_other_classes(records: list[Record]) -> float:
    """Return how many of the boxes that a detection lies on it takes for another class; 0 where there are none."""
    if not records or not records[0].get("has_background"):
        return 0.0
    support = np.array(records[0]["support"], np.float64)
    recall = np.array([share or 0.0 for share in records[0]["recall"]], np.float64)
    right, background = float((support * recall).sum()), len(support)
    wrong = sum(count for true, answer, count in records[0]["confusion"] if background not in (true, answer))
    return wrong / (wrong + right) if wrong else 0.0


def poor_anchors(history: History) -> Finding | None:
    """No anchor is like the boxes, so that most of them learn from the single best one, which is far off."""
    overlap = median(history.column("anchor_overlap")[-NEWEST_STEPS:])
    if not overlap < LEAST_OVERLAP:
        return None
    evidence = (f"The anchor that is most like a box overlaps it by {overlap:.2f}, in the mean over boxes.",)
    advice = (
        "--image-size, larger: anchors lie closer then, beside the objects; or another --model, with maps of more "
        "cells; where boxes are few pixels wide anyway, look at them with im2rec_wrapper show"
    )
    if "expand" in str(setting(history, "augment", "")):
        advice = f"--augment without expand, which makes boxes up to four times smaller; or {advice}"
    return Finding("poor-anchors", "Anchors do not fit the boxes", evidence, advice, steps_of(history))
