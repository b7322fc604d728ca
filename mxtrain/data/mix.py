"""Mixup and CutMix: each sample of a micro-batch mixed with the one after it, and the last with the first.

Samples come shuffled, so the next one is a random one. What is drawn depends on (seed, step, position of the
micro-batch) alone: neither workers, devices nor resuming move it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class MixedIn(NamedTuple):
    """The lesser part of each sample of a micro-batch: its label, and its share of the sample and of the loss."""

    label: Array
    share: Array  # float32, at most a half


def mix(
    data: Array, label: Array, step: int, position: int, *, seed: int, mixup: float, cutmix: float
) -> MixedIn | None:
    """Mix `data` (n, channels, height, width) in place, leaving in `label` that of each sample's larger part.

    How much of the next sample goes in is drawn for each from Beta(alpha, alpha). Where both ways are wanted, a coin
    decides for each; where neither is, nothing is touched.
    """
    if not mixup and not cutmix:
        return None
    rng = micro_batch_rng(seed, step, position)
    first = data[0].copy()
    shares = np.empty(len(data), np.float32)
    for place, sample in enumerate(data):
        following = data[place + 1] if place + 1 < len(data) else first
        is_cutmix = cutmix > 0 and (mixup == 0 or rng.random() < 0.5)
        alpha = cutmix if is_cutmix else mixup
        put_in = _cut_in if is_cutmix else _blend_in
        shares[place] = put_in(sample, following, rng.beta(alpha, alpha), rng)
    own, others = label.copy(), np.roll(label, -1)
    is_larger = shares > 0.5
    label[:] = np.where(is_larger, others, own)
    return MixedIn(np.where(is_larger, own, others), np.minimum(shares, 1 - shares))


def micro_batch_rng(seed: int, step: int, position: int) -> np.random.Generator:
    """As `order.sample_rng`, whose streams the third word of the counter stays clear of."""
    key, counter = np.array([seed, step], np.uint64), np.array([0, 0, 1, position], np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))


def _blend_in(sample: Array, other: Array, share: float, rng: np.random.Generator) -> float:
    """Mixup: every pixel by the share."""
    for plane, other_plane in zip(sample, other):
        cv2.addWeighted(plane, 1 - share, other_plane, share, 0, dst=plane)
    return share


def _cut_in(sample: Array, other: Array, share: float, rng: np.random.Generator) -> float:
    """CutMix: a box of that share of the area, centred anywhere; what share of it lies inside the picture."""
    height, width = sample.shape[1:]
    high, wide = height * share**0.5, width * share**0.5
    y, x = rng.uniform(0, height), rng.uniform(0, width)
    top, bottom = max(0, round(y - high / 2)), min(height, round(y + high / 2))
    left, right = max(0, round(x - wide / 2)), min(width, round(x + wide / 2))
    sample[:, top:bottom, left:right] = other[:, top:bottom, left:right]
    return float((bottom - top) * (right - left)) / (height * width)
