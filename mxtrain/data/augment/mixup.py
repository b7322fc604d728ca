"""Mixup and CutMix: each sample of a micro-batch is mixed with the next one, the last with the first.

Samples come shuffled, so the next one is a random one. The draws depend on (seed, step, position of the micro-batch)
alone, so neither workers, devices nor a resume changes them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mxtrain.core.opencv import cv2
from mxtrain.data.fields import Array


class MixedIn(NamedTuple):
    """The smaller part of each sample of a micro-batch: its label, and its fraction of the sample and of the loss.

    Labels may be rows, and fractions are then rows of one.
    """

    label: Array
    fraction: Array  # float32, at most a half


def mix(
    data: Array, label: Array, step: int, position: int, *, seed: int, mixup: float, cutmix: float
) -> MixedIn | None:
    """Mix `data` (n, channels, height, width) in place, and set `label` to that of each sample's larger part.

    `mixup` and `cutmix` are the alphas of --mixup and --cutmix, 0 for off: the fraction of the next sample is drawn
    from Beta(alpha, alpha) for each sample. With both, a coin decides for each sample. Returns the smaller parts, or
    None, with nothing changed, where both are off.
    """
    if not mixup and not cutmix:
        return None
    rng = micro_batch_rng(seed, step, position)
    first = data[0].copy()
    fractions = np.empty(len(data), np.float32)
    for place, sample in enumerate(data):
        following = data[place + 1] if place + 1 < len(data) else first
        is_cutmix = cutmix > 0 and (mixup == 0 or rng.random() < 0.5)
        alpha = cutmix if is_cutmix else mixup
        put_in = _cut_in if is_cutmix else _blend_in
        fractions[place] = put_in(sample, following, rng.beta(alpha, alpha), rng)
    own, others = label.copy(), np.roll(label, -1, axis=0)
    fractions = fractions.reshape(-1, *[1] * (label.ndim - 1))
    is_larger = fractions > 0.5
    label[:] = np.where(is_larger, others, own)
    return MixedIn(np.where(is_larger, own, others), np.minimum(fractions, 1 - fractions))


def micro_batch_rng(seed: int, step: int, position: int) -> np.random.Generator:
    """Return a generator like `order.sample_rng`'s; the third word of the counter separates their streams."""
    key, counter = np.array([seed, step], np.uint64), np.array([0, 0, 1, position], np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))


def _blend_in(sample: Array, other: Array, fraction: float, rng: np.random.Generator) -> float:
    """Mixup: blend every pixel, and return the fraction."""
    for plane, other_plane in zip(sample, other):
        cv2.addWeighted(plane, 1 - fraction, other_plane, fraction, 0, dst=plane)
    return fraction


def _cut_in(sample: Array, other: Array, fraction: float, rng: np.random.Generator) -> float:
    """CutMix: copy a box of this fraction of the area, centred anywhere; return the fraction inside the picture."""
    height, width = sample.shape[1:]
    high, wide = height * fraction**0.5, width * fraction**0.5
    y, x = rng.uniform(0, height), rng.uniform(0, width)
    top, bottom = max(0, round(y - high / 2)), min(height, round(y + high / 2))
    left, right = max(0, round(x - wide / 2)), min(width, round(x + wide / 2))
    sample[:, top:bottom, left:right] = other[:, top:bottom, left:right]
    return float((bottom - top) * (right - left)) / (height * width)
