"""From what a net gives to the loss of every sample: `--loss`, `--label-smoothing` and a teacher's share.

A loss is a function `(output, label) -> losses`: `output` float32 (samples, classes), one float32 loss for each sample.
Who sums them, weighs them and mixes them is the step's business.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable

from mxtrain.config import catalogue, import_path
from mxtrain.core.errors import UsageError, as_user_code
from mxtrain.runtime import mx

Loss = Callable[[Any, Any], Any]


def build(text: str, label_smoothing: float, num_classes: int) -> Loss:
    """The loss that `--loss` describes, tried once on zeros where it is the user's own."""
    name, numbers = catalogue.loss(text)
    if name not in BY_NAME:
        return _of_user(name, num_classes)
    smoothing = {"smoothing": label_smoothing} if name in catalogue.SMOOTHED_LOSSES else {}
    return functools.partial(BY_NAME[name], **numbers, **smoothing)


def cross_entropy(output: Any, label: Any, smoothing: float = 0.0) -> Any:
    """Of the softmax of `output`, against the label's class and, with smoothing, a little of every class."""
    log_probabilities = output.log_softmax(axis=1)
    losses = -log_probabilities.pick(label, axis=1)
    return losses if not smoothing else (1 - smoothing) * losses - smoothing * log_probabilities.mean(axis=1)


def focal(output: Any, label: Any, gamma: float) -> Any:
    """Cross-entropy that counts a sample less the more certain the net is of its label (Lin and others, 2017)."""
    losses = cross_entropy(output, label)
    return (1 - (-losses).exp()) ** gamma * losses


def binary_cross_entropy(output: Any, label: Any, smoothing: float = 0.0) -> Any:
    """Every class a yes-or-no question of its own; the mean over the classes."""
    num_classes = output.shape[1]
    target = (1 - smoothing) * label.one_hot(num_classes) + smoothing / num_classes
    return (output.relu() - output * target + mx.nd.Activation(-output.abs(), "softrelu")).mean(axis=1)


def distillation(output: Any, taught: Any, temperature: float) -> Any:
    """How far the net is from a teacher's `taught`, both softened by the temperature (Hinton and others, 2015).

    The Kullback-Leibler divergence, which has the gradient of their cross-entropy and is 0 where both agree. The
    softened gradient is smaller by the temperature squared; that factor makes up for it.
    """
    log_own = (output / temperature).log_softmax(axis=1)
    log_taught = (taught / temperature).log_softmax(axis=1)
    return temperature**2 * (log_taught.exp() * (log_taught - log_own)).sum(axis=1)


BY_NAME: dict[str, Any] = {
    "cross_entropy": cross_entropy,
    "binary_cross_entropy": binary_cross_entropy,
    "focal": focal,
}


def _of_user(path: str, num_classes: int) -> Loss:
    """The user's function, or an instance of their class (Gluon's own losses are classes)."""
    found = import_path.load_callable("--loss", path)
    user = f"--loss {path}"
    loss: Loss = as_user_code(user, as_user_code(user, found)() if inspect.isclass(found) else found)
    losses = loss(mx.nd.zeros((2, num_classes)), mx.nd.zeros(2))
    if getattr(losses, "shape", None) != (2,):
        given = getattr(losses, "shape", f"a {type(losses).__name__}")
        raise UsageError(
            f"--loss {path}: gives {given} for two samples; it has to give one loss for each, (2,)"
        )
    return loss
