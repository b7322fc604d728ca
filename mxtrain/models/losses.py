"""Losses: `--loss`, `--label-smoothing` and the distillation loss.

A loss is a function `(output, label) -> losses`: from `output`, float32 (samples, classes), to one float32 loss for
each sample, or for each of its labels where it has several. Does not own how they are weighted, mixed and summed
(`tasks/classes.py`).
"""

from __future__ import annotations

import functools
import inspect
import math
from typing import Any, Callable

import numpy as np

from mxtrain import native
from mxtrain.config.components import import_path
from mxtrain.config.components import losses as components
from mxtrain.config.components.component import load
from mxtrain.config.program_objects import NO_OBJECTS, ProgramObjects
from mxtrain.core.errors import UsageError, as_user_code
from mxtrain.models.heads.margins import SMALLEST_SINE
from mxtrain.runtime import mx, own_operators
from mxtrain.runtime.types import NDArray

Loss = Callable[[NDArray, NDArray], NDArray]
FEWEST_CLASSES = 256  # of a row for operators of ours


def build(text: str, label_smoothing: float, num_classes: int, objects: ProgramObjects = NO_OBJECTS) -> Loss:
    """Return the loss of `--loss`; a user's own is called once on zeros, and UsageError if its shape is wrong."""
    known = _known(components.CLASSES, text, label_smoothing) or _known(components.COSINES, text, 0.0)
    return known or _user_loss(text, objects, mx.nd.zeros((2, num_classes)), mx.nd.zeros(2), (2,))


def build_plain(text: str, num_classes: int, objects: ProgramObjects = NO_OBJECTS) -> Loss:
    """Return the loss of evaluations for `--loss`: without smoothing, and without a margin."""
    if components.parse(text).name in components.of_target(components.COSINES):
        return cross_entropy
    return build(text, 0.0, num_classes, objects)


def build_of_labels(
    text: str, label_smoothing: float, num_classes: int, objects: ProgramObjects = NO_OBJECTS
) -> Loss:
    """Return the loss of `--loss` where each class has a label of 0 or 1: from two arrays of rows to such an array."""
    rows = mx.nd.zeros((2, num_classes))
    known = _known(components.LABELS, text, label_smoothing)
    return known or _user_loss(text, objects, rows, rows, rows.shape)


def build_of_numbers(text: str, num_targets: int, objects: ProgramObjects = NO_OBJECTS) -> Loss:
    """Return the loss of `--loss` for rows of numbers: their mean over a sample's targets."""
    rows = mx.nd.zeros((2, num_targets))
    return _known(components.NUMBERS, text, 0.0) or _user_loss(text, objects, rows, rows, (2,))


def _known(target: str, text: str, smoothing: float) -> Loss | None:
    """Return a loss that is known by name for this kind of targets; None for the user's own."""
    name, hyperparameters = components.parse(text)
    if name not in components.of_target(target):
        return None
    loss = components.LOSSES[name]
    more = {"smoothing": smoothing} if loss.is_smoothed else {}
    return functools.partial(load(loss.factories[target]), **hyperparameters, **more)


def cross_entropy(output: NDArray, label: NDArray, smoothing: float = 0.0) -> NDArray:
    """Return the cross-entropy of softmax with the label's class, which smoothing mixes with all classes.

    Classes are the last axis. A label that is no class is the nearest.
    """
    if mx.autograd.is_recording() and _are_wide(output) and label.dtype == np.float32:
        losses, _ = own_operators.compute(own_operators.CROSS_ENTROPY, output, label, smoothing=smoothing)
        return losses
    log_probabilities = output.log_softmax(axis=-1)
    losses = -log_probabilities.pick(label, axis=-1)
    return losses if not smoothing else (1 - smoothing) * losses - smoothing * log_probabilities.mean(axis=-1)


def likeliest(output: NDArray) -> NDArray:
    """Return the class with the largest output, the last axis being classes; of several the first."""
    if _are_wide(output):
        found: NDArray = own_operators.compute(own_operators.LIKELIEST, output)
        return found
    return output.argmax(axis=-1)


def _are_wide(output: NDArray) -> bool:
    """Return whether rows of output are for operators of ours: of fewer classes nothing is won."""
    is_ours = native.OPERATORS is not None and output.context.device_type == "cpu"
    return is_ours and output.dtype == np.float32 and output.ndim > 1 and output.shape[-1] >= FEWEST_CLASSES


def arcface(output: NDArray, label: NDArray, scale: float, margin: float) -> NDArray:
    """Return the cross-entropy of scaled cosines, the label's angle made larger by the margin (Deng et al., 2019).

    Where the angle would be more than pi, the cosine is made smaller by margin * sin(margin) instead, so that the loss
    still falls with the angle: insightface does so unless it is told to take the easy margin.
    """
    cosine = output.pick(label, axis=1) / scale
    # At cosines of 1 and -1 the sine has an infinite slope; so near to them it is constant.
    sine = (((1 - cosine) * (1 + cosine) - SMALLEST_SINE**2).relu() + SMALLEST_SINE**2).sqrt()
    turned = cosine * math.cos(margin) - sine * math.sin(margin)
    moved = mx.nd.where(cosine > -math.cos(margin), turned, cosine - margin * math.sin(margin))
    return _with_margin(output, label, scale * (moved - cosine))


def cosface(output: NDArray, label: NDArray, scale: float, margin: float) -> NDArray:
    """Return the cross-entropy of scaled cosines, the label's made smaller by the margin (Wang et al., 2018)."""
    moved = mx.nd.full(label.shape, -scale * margin, ctx=label.context)
    return _with_margin(output, label, moved)


def _with_margin(output: NDArray, label: NDArray, moved: NDArray) -> NDArray:
    """Return the cross-entropy where the label's output is moved by so much."""
    samples = mx.nd.arange(len(label), ctx=label.context, dtype=label.dtype)
    # In less time than by a product with one-hot labels, where classes are many.
    return cross_entropy(output + mx.nd.scatter_nd(moved, mx.nd.stack(samples, label), output.shape), label)


def focal(output: NDArray, label: NDArray, gamma: float) -> NDArray:
    """Return the focal loss (Lin et al., 2017): less for samples whose label the net is certain of."""
    losses = cross_entropy(output, label)
    # MXNet's log_softmax gives up to 2e-6 for a certain label: less than nothing, which has no power of 1.5.
    return (1 - (-losses).exp()).relu() ** gamma * losses


def binary_cross_entropy(output: NDArray, label: NDArray, smoothing: float = 0.0) -> NDArray:
    """Return the mean over classes of the sigmoid cross-entropy, each class being a decision of its own."""
    num_classes = output.shape[1]
    target = (1 - smoothing) * label.one_hot(num_classes) + smoothing / num_classes
    # relu() with a slope of 1/2 at 0. Its argument is a node of its own, which adds up the slope of both terms before
    # others are added: elsewhere gradients have the bits that relu() gives them.
    own = mx.nd.identity(output)
    positive = 0.5 * (own + own.abs())
    return (positive - output * target + mx.nd.Activation(-output.abs(), "softrelu")).mean(axis=1)


def label_cross_entropy(output: NDArray, label: NDArray, smoothing: float = 0.0) -> NDArray:
    """Return the sigmoid cross-entropy of each label; smoothing brings labels nearer to a half.

    The two terms keep small losses and the gradient at 0 exact, which the usual one with |output| does not.
    """
    target = (1 - smoothing) * label + smoothing / 2 if smoothing else label
    present, absent = mx.nd.Activation(-output, "softrelu"), mx.nd.Activation(output, "softrelu")
    return target * present + (1 - target) * absent


def label_focal(output: NDArray, label: NDArray, gamma: float) -> NDArray:
    """Return the focal loss of each label, less for those that the net is certain of."""
    losses = label_cross_entropy(output, label)
    return (1 - (-losses).exp()) ** gamma * losses


def label_distillation(output: NDArray, teacher_output: NDArray, temperature: float) -> NDArray:
    """Return the distance from a teacher's output for each label by itself, as `distillation` does for classes."""
    taught = (teacher_output / temperature).sigmoid()
    apart = label_cross_entropy(output / temperature, taught)
    return temperature**2 * (apart - label_cross_entropy(teacher_output / temperature, taught))


def l1(output: NDArray, label: NDArray) -> NDArray:
    """Return the mean absolute difference over a sample's targets."""
    return (output - label).abs().mean(axis=1)


def l2(output: NDArray, label: NDArray) -> NDArray:
    """Return the mean squared difference over a sample's targets."""
    return (output - label).square().mean(axis=1)


def huber(output: NDArray, label: NDArray, delta: float) -> NDArray:
    """Return half of the squared difference up to `delta`, and beyond it a straight line (Huber, 1964)."""
    apart = (output - label).abs()
    near = apart.clip(0, delta)
    return (near * (apart - 0.5 * near)).mean(axis=1)


def distillation(output: NDArray, teacher_output: NDArray, temperature: float) -> NDArray:
    """Return the distance from a teacher's output, both softened by the temperature (Hinton et al., 2015).

    This is the Kullback-Leibler divergence, which has the gradient of cross-entropy and is 0 where both agree, times
    the temperature squared, by which softening shrinks the gradient.
    """
    log_own = (output / temperature).log_softmax(axis=1)
    log_teacher = (teacher_output / temperature).log_softmax(axis=1)
    return temperature**2 * (log_teacher.exp() * (log_teacher - log_own)).sum(axis=1)


def _user_loss(
    path: str, objects: ProgramObjects, output: NDArray, label: NDArray, shape: tuple[int, ...]
) -> Loss:
    """Return the user's function, or an instance of their class, as Gluon's losses are classes.

    It has to make losses of `shape` of these arrays.
    """
    function = import_path.load_callable("--loss", path, objects)
    user = f"--loss {path}"
    own: Any = function
    if inspect.isclass(function):
        own = as_user_code(user, own)()
    loss: Loss = as_user_code(user, own)
    losses = loss(output, label)
    if getattr(losses, "shape", None) != shape:
        returned = getattr(losses, "shape", f"a {type(losses).__name__}")
        raise UsageError(
            f"--loss {path}: gives {returned} for two samples; it has to give one loss for each label, {shape}"
        )
    return loss
