"""Every optimizer as its formula, in numpy and float64: what ours and MXNet's are held against.

Each takes the weight, the gradient of the mean loss, the rate, the decay, the number of the update from 1, the
optimizer's numbers and a dictionary for what it keeps; it returns the new weight.
"""

from __future__ import annotations

from typing import Any, Callable, Dict

import numpy as np
from numpy import sqrt

Array = Any
Kept = Dict[str, Any]


def running(kept: Kept, name: str, share: float, value: Array) -> Array:
    """A running mean that starts at 0."""
    kept[name] = share * kept.get(name, 0.0) + (1 - share) * value
    return kept[name]


def summed(kept: Kept, name: str, share: float, value: Array) -> Array:
    kept[name] = share * kept.get(name, 0.0) + value
    return kept[name]


def sgd(w: Array, g: Array, rate: float, decay: float, t: int, n: Any, kept: Kept) -> Array:
    return w - summed(kept, "velocity", n["momentum"], rate * (g + decay * w))


def nag(w: Array, g: Array, rate: float, decay: float, t: int, n: Any, kept: Kept) -> Array:
    velocity = summed(kept, "velocity", n["momentum"], rate * (g + decay * w))
    return w - (n["momentum"] * velocity + rate * (g + decay * w))


def signum(w: Array, g: Array, rate: float, decay: float, t: int, n: Any, kept: Kept) -> Array:
    return w - rate * np.sign(running(kept, "mean", n["momentum"], g + decay * w))


def lars(w: Array, g: Array, rate: float, decay: float, t: int, n: Any, kept: Kept) -> Array:
    if w.ndim > 1:
        size, slope = np.linalg.norm(w), np.linalg.norm(g)
        rate = rate * n["eta"] * size / (slope + decay * size + n["epsilon"])
    return sgd(w, g, rate, decay, t, n, kept)


def adam(w: Array, g: Array, rate: float, decay: float, t: int, n: Any, kept: Kept) -> Array:
    g = g + decay * w
    mean, square = running(kept, "mean", n["beta1"], g), running(kept, "square", n["beta2"], g * g)
    rate = rate * sqrt(1 - n["beta2"] ** t) / (1 - n["beta1"] ** t)
    return w - rate * mean / (sqrt(square) + n["epsilon"])


def unbiased(g: Array, t: int, n: Any, kept: Kept) -> Any:
    """Adam's mean and root of squares, as if they had not started at 0."""
    mean, square = running(kept, "mean", n["beta1"], g), running(kept, "square", n["beta2"], g * g)
    return mean / (1 - n["beta1"] ** t), sqrt(square / (1 - n["beta2"] ** t))


def adamw(w: Array, g: Array, rate: float, decay: float, t: int, n: Any, kept: Kept) -> Array:
    mean, root = unbiased(g, t, n, kept)
    return w - rate * decay * w - rate * mean / (root + n["epsilon"])


def nadam(w: Array, g: Array, rate: float, decay: float, t: int, n: Any, kept: Kept) -> Array:
    g = g + decay * w
    mean, root = unbiased(g, t, n, kept)
    now, following = (n["beta1"] * (1 - 0.5 * 0.96 ** (i * n["momentum_decay"])) for i in (t, t + 1))
    kept["product"] = kept.get("product", 1.0) * now
    of_mean = following * (1 - n["beta1"] ** t) / (1 - kept["product"] * following)
    of_gradient = (1 - now) / (1 - kept["product"])
    return w - rate * (of_gradient * g + of_mean * mean) / (root + n["epsilon"])


def adamax(w: Array, g: Array, rate: float, decay: float, t: int, n: Any, kept: Kept) -> Array:
    g = g + decay * w
    mean = running(kept, "mean", n["beta1"], g)
    kept["largest"] = np.maximum(n["beta2"] * kept.get("largest", 0.0), abs(g) + n["epsilon"])
    return w - rate / (1 - n["beta1"] ** t) * mean / kept["largest"]


def lamb(w: Array, g: Array, rate: float, decay: float, t: int, n: Any, kept: Kept) -> Array:
    if n["bias_correction"]:
        mean, root = unbiased(g, t, n, kept)
    else:
        mean = running(kept, "mean", n["beta1"], g)
        root = sqrt(running(kept, "square", n["beta2"], g * g))
    direction = mean / (root + n["epsilon"]) + decay * w
    size = max(np.linalg.norm(w), n["lower_bound"])
    if n["upper_bound"]:
        size = min(size, n["upper_bound"])
    length = np.linalg.norm(direction)
    return w - rate * (size / length if size and length else 1.0) * direction


def adadelta(w: Array, g: Array, rate: float, decay: float, t: int, n: Any, kept: Kept) -> Array:
    g = g + decay * w
    square = running(kept, "square", n["rho"], g * g)
    delta = sqrt(kept.get("deltas", 0.0) + n["epsilon"]) / sqrt(square + n["epsilon"]) * g
    running(kept, "deltas", n["rho"], delta * delta)
    return w - rate * delta


def adagrad(w: Array, g: Array, rate: float, decay: float, t: int, n: Any, kept: Kept) -> Array:
    square = summed(kept, "square", 1.0, g * g)
    return w - rate * decay * w - rate * g / sqrt(square + n["epsilon"])


def rmsprop(w: Array, g: Array, rate: float, decay: float, t: int, n: Any, kept: Kept) -> Array:
    g = g + decay * w
    square = running(kept, "square", n["gamma1"], g * g)
    if not n["centered"]:
        return w - rate * g / sqrt(square + n["epsilon"])
    mean = running(kept, "mean", n["gamma1"], g)
    return w - summed(kept, "velocity", n["gamma2"], rate * g / sqrt(square - mean * mean + n["epsilon"]))


def ftml(w: Array, g: Array, rate: float, decay: float, t: int, n: Any, kept: Kept) -> Array:
    g = g + decay * w
    square = running(kept, "square", n["beta2"], g * g)
    before = kept.get("d", 0.0)
    kept["d"] = (1 - n["beta1"] ** t) / rate * (sqrt(square / (1 - n["beta2"] ** t)) + n["epsilon"])
    z = summed(kept, "z", n["beta1"], (1 - n["beta1"]) * g - (kept["d"] - n["beta1"] * before) * w)
    return -z / kept["d"]


def ftrl(w: Array, g: Array, rate: float, decay: float, t: int, n: Any, kept: Kept) -> Array:
    before = kept.get("square", 0.0)
    square = summed(kept, "square", 1.0, g * g)
    z = summed(kept, "z", 1.0, g - (sqrt(square) - sqrt(before)) / rate * w)
    unshrunk = (np.sign(z) * n["lamda1"] - z) / ((n["beta"] + sqrt(square)) / rate + decay)
    return np.where(abs(z) > n["lamda1"], unshrunk, 0.0)


REFERENCES: dict[str, Callable[..., Array]] = {
    function.__name__: function
    for function in (
        *(sgd, nag, signum, lars, adam, adamw, nadam, adamax, lamb),
        *(adadelta, adagrad, rmsprop, ftml, ftrl),
    )
}
