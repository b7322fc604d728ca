"""Boxes and answers drawn at random, for comparisons with GluonCV."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxtrain.models.detectors.center_net_coder import CenterNetCoder
from mxtrain.models.detectors.ssd_coder import SsdCoder
from mxtrain.runtime import mx

PICTURES, MOST, CLASSES, SIDE = 4, 12, 5, 256
SURE = 10  # the logit of a yes


def boxes(seed: int, least: int = 1) -> np.ndarray:
    """Return the boxes of some pictures, filled up with -1, as a loader gives them."""
    rng = np.random.default_rng(seed)
    every = np.full((PICTURES, MOST, 6), -1, np.float32)
    for of_picture in every:
        count = int(rng.integers(least, MOST))
        low = rng.uniform(0, SIDE - 60, (count, 2))
        high = np.minimum(low + rng.uniform(8, 150, (count, 2)), SIDE)
        of_picture[:count] = np.hstack(
            [low, high, rng.integers(0, CLASSES, (count, 1)), np.zeros((count, 1))]
        )
    return every


def answer(seed: int, *shape: int) -> Any:
    return mx.nd.array(np.random.default_rng(seed).normal(0, 2, (PICTURES, *shape)))


def right_answer(coder: Any, box: np.ndarray, number: int) -> Any:
    """Return what a net that is right and sure answers to one picture, in which there is one box of this class."""
    targets = coder.targets(np.array([[[*box, number, 0]]], np.float32))
    classes = np.arange(CLASSES)
    if isinstance(coder, SsdCoder):
        parts = [targets.classes[..., None] == np.arange(CLASSES + 1), targets.shifts]
        return mx.nd.array(np.concatenate([SURE * parts[0], parts[1]], axis=2))
    if isinstance(coder, CenterNetCoder):
        logits = np.where(targets.heat == 1, SURE, -SURE)
        return mx.nd.array(np.concatenate([logits, targets.sizes, targets.shifts], axis=2))
    has_box = targets.has_box[..., None] > 0
    shares = np.where(has_box, targets.centres, 0.5)
    yes = has_box & (targets.classes[..., None] == classes)
    logits = [np.where(each, SURE, -SURE) for each in (has_box, yes)]
    return mx.nd.array(np.concatenate([np.log(shares / (1 - shares)), targets.stretches, *logits], axis=2))
