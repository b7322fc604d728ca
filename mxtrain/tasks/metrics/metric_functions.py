"""Formulas of metrics by name (`--metric`), of what a task judges.

Owns the formulas: what is kept of each micro-batch, and a number from all of that, in the order of the samples. Where
scikit-learn has a number it is the same; where one has no meaning, as an area under a curve without a positive sample,
it is NaN. Their names are in `config/components/metrics.py`; which a run has is decided in `metric_selection.py`.

    kind          predictions                          targets
    classes       (n, classes), higher is likelier     (n,), the number of a class
    labels        (n, classes), higher is likelier     (n, classes), 1 or 0, or below 0 where it is not known
    numbers       (n,) or (n, outputs)                 of the same shape
    likelihoods   logarithms of the probability of     their weights, of the same shape
                  what came, of any shape
"""

from __future__ import annotations

import functools
import math
from typing import Any, Callable, Iterator, NamedTuple

import numpy as np
import numpy.typing as npt

from mxtrain.cluster.worker_group import in_order
from mxtrain.core import limbs
from mxtrain.data.fields import Array
from mxtrain.tasks.metrics.metrics import ranks_of_classes
from mxtrain.tasks.metrics.multilabel_metrics import average_precision

Floats = npt.NDArray[np.float64]
LARGEST_POWER = 700  # of e, in float64
# Of limbs that float64 adds exactly, for 2**32 numbers below 2**17 each.
UNITS = (2.0**-2, 2.0**-24, 2.0**-46)


class Formula(NamedTuple):
    """A metric: the number of a table, of which each micro-batch has a row of sums, or a row for each sample."""

    kept: Callable[..., Array]  # the rows of a micro-batch, from its predictions and targets
    number: Callable[..., float]  # from all rows
    is_lower_better: bool | None = False  # None where neither is


# ------------------------------------------------------------------------------------------------------------
# Classes


def _hits(predictions: Array, targets: Array, k: int) -> Array:
    return np.array([[(ranks_of_classes(predictions, targets) < k).sum(), len(targets)]])


def _share(sums: Floats) -> float:
    part, whole = in_order(sums).tolist()
    return part / whole if whole else math.nan


def _decisions(predictions: Array, targets: Array) -> Array:
    """Return the class that each sample is taken for, its own, and how many there are."""
    count = np.full(len(targets), predictions.shape[1])
    return np.stack([predictions.argmax(axis=1), targets, count], axis=1)


def _confusion(decisions: Floats) -> Floats:
    """Return the number of samples of each class, by row, that were taken for each class."""
    taken_for, target, count = decisions.astype(np.int64).T
    size = int(count.max(initial=1))
    return np.bincount(target * size + taken_for, minlength=size**2).reshape(size, size).astype(np.float64)


def _balanced_accuracy(decisions: Floats) -> float:
    confusion = _confusion(decisions)
    return _mean_share(np.diag(confusion), confusion.sum(axis=1), confusion.any(axis=1))


def _macro_f1(decisions: Floats) -> float:
    confusion = _confusion(decisions)
    seen = confusion.sum(axis=0) + confusion.sum(axis=1)
    return _mean_share(2 * np.diag(confusion), seen, seen > 0)


def _precision_or_recall(decisions: Floats, axis: int) -> float:
    """Return precision (axis 0) or recall (axis 1): of the second of two classes, else the mean over classes.

    Classes that neither came nor were named do not count.
    """
    confusion = _confusion(decisions)
    is_counted = confusion.any(axis=0) | confusion.any(axis=1)
    if len(confusion) == 2:
        is_counted &= [False, True]
        is_counted[1] |= len(decisions) > 0
    return _mean_share(np.diag(confusion), confusion.sum(axis=axis), is_counted)


def _mean_share(parts: Floats, wholes: Floats, is_counted: Any) -> float:
    """Return the mean over those that count, where a part of nothing is 0."""
    shares = parts[is_counted] / np.maximum(wholes[is_counted], 1)
    return float(shares.mean()) if len(shares) else math.nan


def _probabilities(predictions: Array, targets: Array) -> Array:
    """Return the probability of each class, or of the second of two alone, and the target."""
    scores = predictions.astype(np.float64)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares = powers / powers.sum(axis=1, keepdims=True)
    return np.column_stack([shares[:, 1:] if shares.shape[1] == 2 else shares, targets])


def _log_losses_of_classes(predictions: Array, targets: Array) -> Array:
    scores = predictions.astype(np.float64)
    below = scores - scores.max(axis=1, keepdims=True, initial=-np.inf)
    own = below[np.arange(len(below)), targets.astype(np.int64)]
    return _exact_sums(np.log(np.exp(below).sum(axis=1)) - own, len(targets))


def _exact_sums(values: Floats, divisor: float) -> Array:
    """Return the sum of values in limbs, whose sums are exact whatever is added first, and what it is divided by."""
    return np.array([[*(limb.sum() for limb in limbs.cut(values, UNITS)), divisor]])


def _quotient(sums: Floats) -> float:
    """Return the sum that is in limbs, rounded once, over the divisor."""
    *of_limbs, divisor = in_order(sums).tolist()
    return math.fsum(of_limbs) / divisor if divisor else math.nan


def _each_class(probabilities: Floats) -> Iterator[tuple[Floats, Any]]:
    """Yield scores and truth of one class after the other."""
    *columns, target = probabilities.T
    for number, column in enumerate(columns):
        yield column, target == (1 if len(columns) == 1 else number)


# ------------------------------------------------------------------------------------------------------------
# Labels, and what they share with classes


def _scores_and_labels(predictions: Array, targets: Array) -> Array:
    return np.concatenate([predictions, targets], axis=1)


def _each_label(scores_and_labels: Floats) -> Iterator[tuple[Floats, Any]]:
    """Yield scores and truth of one label after the other, of the samples in which it is known."""
    for scores, labels in zip(*np.split(scores_and_labels.T, 2)):
        yield scores[labels >= 0], labels[labels >= 0] > 0


def roc_auc(scores: Floats, is_positive: Any) -> float:
    """Return the share of pairs of a positive and a negative that are in order, ties half; NaN without any pair."""
    num_positive = int(is_positive.sum())
    num_pairs = num_positive * (len(scores) - num_positive)
    if not num_pairs:
        return math.nan
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    # Twice the ranks from 1, as equal scores share theirs: whole numbers, whose sum is exact.
    ranks = 2 * np.cumsum(counts) - (counts - 1)
    own = int(ranks[inverse.reshape(-1)[is_positive]].sum())
    return (own - num_positive * (num_positive + 1)) / (2 * num_pairs)


def _log_losses_of_labels(predictions: Array, targets: Array) -> Array:
    scores, labels = _known(predictions, targets)
    losses = np.maximum(scores, 0) - scores * labels + np.log1p(np.exp(-np.abs(scores)))
    return _exact_sums(losses, len(labels))


def _predicted_and_had(predictions: Array, targets: Array) -> Array:
    scores, labels = _known(predictions, targets)
    powers = np.exp(-np.abs(scores))
    return _exact_sums(np.where(scores < 0, powers, 1) / (1 + powers), labels.sum())


def _known(predictions: Array, targets: Array) -> tuple[Floats, Floats]:
    """Return the scores and labels of all decisions that are known."""
    is_known = targets >= 0
    return predictions[is_known].astype(np.float64), (targets[is_known] > 0).astype(np.float64)


def _precision_on_average(scores: Floats, is_positive: Any) -> float:
    return average_precision(scores, is_positive.astype(np.float64))


def _over_classes(
    table: Floats,
    of_classes: Callable[[Floats], Iterator[tuple[Floats, Any]]],
    number: Callable[[Floats, Any], float],
) -> float:
    """Return the mean of the numbers of all classes that have one."""
    found = [number(*scores_and_truth) for scores_and_truth in of_classes(table)]
    known = [value for value in found if not math.isnan(value)]
    return float(np.mean(known)) if known else math.nan


# ------------------------------------------------------------------------------------------------------------
# Numbers and likelihoods


def _columns(array: Array) -> Floats:
    return np.asarray(array, np.float64).reshape(len(array), math.prod(array.shape[1:]))


def _errors(predictions: Array, targets: Array, power: int) -> Array:
    """Return the sum of the errors of each output, to a power, and the number of samples."""
    errors = np.abs(_columns(predictions) - _columns(targets)) ** power
    sums = in_order(np.concatenate([np.zeros((1, errors.shape[1])), errors]))
    return np.append(sums, len(errors))[None]


def _mean_error(sums: Floats, power: int) -> float:
    """Return the mean over all outputs, or the root of the mean of all squares."""
    *of_outputs, count = in_order(sums)
    return float((np.array(of_outputs) / count).mean() ** (1 / power)) if count else math.nan


def _pairs(predictions: Array, targets: Array) -> Array:
    return np.concatenate([_columns(predictions), _columns(targets)], axis=1)


def _r2(pairs: Floats) -> float:
    """Return the mean over outputs of the share of the variance that is explained: of a constant 1, or 0 if missed."""
    if len(pairs) < 2:
        return math.nan
    predictions, targets = np.split(pairs, 2, axis=1)
    left = in_order((targets - predictions) ** 2)
    whole = in_order((targets - in_order(targets) / len(targets)) ** 2)
    return float(np.where(whole > 0, 1 - left / np.where(whole > 0, whole, 1), left == 0).mean())


def _log_likelihood(predictions: Array, weights: Array) -> Array:
    return np.array([[np.sum(each, dtype=np.float64) for each in (predictions * weights, weights)]])


def _perplexity(sums: Floats) -> float:
    likelihood, weight = in_order(sums).tolist()
    mean = -likelihood / weight if weight else math.nan
    return math.inf if mean > LARGEST_POWER else math.exp(mean)


_of_classes = functools.partial(_over_classes, of_classes=_each_class)
_of_labels = functools.partial(_over_classes, of_classes=_each_label)

ACCURACY = Formula(functools.partial(_hits, k=1), _share)
TOPK = Formula(_hits, _share)  # which takes its k
BALANCED_ACCURACY = Formula(_decisions, _balanced_accuracy)
MACRO_F1 = Formula(_decisions, _macro_f1)
PRECISION = Formula(_decisions, functools.partial(_precision_or_recall, axis=0))
RECALL = Formula(_decisions, functools.partial(_precision_or_recall, axis=1))
AUC_OF_CLASSES = Formula(_probabilities, functools.partial(_of_classes, number=roc_auc))
AVERAGE_PRECISION = Formula(_probabilities, functools.partial(_of_classes, number=_precision_on_average))
LOG_LOSS_OF_CLASSES = Formula(_log_losses_of_classes, _quotient, is_lower_better=True)
AUC_OF_LABELS = Formula(_scores_and_labels, functools.partial(_of_labels, number=roc_auc))
LOG_LOSS_OF_LABELS = Formula(_log_losses_of_labels, _quotient, is_lower_better=True)
CALIBRATION = Formula(_predicted_and_had, _quotient, is_lower_better=None)
MAE = Formula(
    functools.partial(_errors, power=1), functools.partial(_mean_error, power=1), is_lower_better=True
)
RMSE = Formula(
    functools.partial(_errors, power=2), functools.partial(_mean_error, power=2), is_lower_better=True
)
R2 = Formula(_pairs, _r2)
PERPLEXITY = Formula(_log_likelihood, _perplexity, is_lower_better=True)
