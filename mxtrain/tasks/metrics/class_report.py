"""The record `classes` of an evaluation: what became of each class, and how far probabilities can be believed.

Owns its numbers, of classes and of several labels a sample. States hold whole numbers only, whose sums are exact: they
are the same to the bit whoever has computed which samples, and in micro-batches of any size. Which tasks have such a
report is decided in `metric_selection.py`. Numbers of one evaluation that is a score's or a column's are metrics.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple, Sequence

import numpy as np
import numpy.typing as npt

from mxtrain.cluster.worker_group import in_order
from mxtrain.data.fields import Array, Arrays
from mxtrain.tasks.task import Output, PredictionsAndTargets, State

Floats = npt.NDArray[np.float64]

NUM_BINS = 15
MOST_PAIRS = 10_000  # of classes that are confused, in a record
# A probability counts as so many parts of 1. In float64 half a billion of them add up exactly.
PARTS = 1 << 24


class Answers(NamedTuple):
    """The answers of a net, one for each decision that counts."""

    target: (
        Array  # a class; or of several labels the label, or number of labels + label where the truth is a no
    )
    answered: Array  # the same, as the net has it
    confidence: Array  # the probability that the net gives its own answer
    size: int  # one more than the largest number of a target


@dataclasses.dataclass(frozen=True)
class ClassReport:
    """A metric with a record besides its number, the expected calibration error."""

    predictions_and_targets: PredictionsAndTargets
    of_labels: bool = False  # several a sample, each a decision between yes and no

    width = 0
    names = ("ece",)
    lower_is_better = True

    def state(self, output: Output, arrays: Arrays) -> State:
        """Return the sums of a micro-batch; nothing where a user's task judges by arrays of other shapes."""
        predictions, targets = self.predictions_and_targets(output, arrays)
        if not _fit(predictions, targets, self.of_labels):
            return np.zeros(0)
        answers = (_of_labels if self.of_labels else _of_classes)(predictions, targets)
        pairs, counts = np.unique(answers.target * answers.size + answers.answered, return_counts=True)
        return np.concatenate([[answers.size], _bin_sums(answers).ravel(), pairs, counts])

    def judge(self, states: Sequence[State]) -> tuple[dict[str, float], dict[str, Any] | None]:
        """Return the expected calibration error, and the record `classes`."""
        record = self.record(states)
        return ({} if record is None else {"ece": record["ece"]}), record

    def record(self, states: Sequence[State]) -> dict[str, Any] | None:
        """Return the record `classes`, without its kind and place (docs/records.md)."""
        if not all(map(len, states)):
            return None
        size = int(states[0][0])
        bins = in_order([state[1 : 1 + 3 * NUM_BINS] for state in states]).reshape(NUM_BINS, 3)
        target, answered, count = _pairs([state[1 + 3 * NUM_BINS :] for state in states], size)
        numbers = _label_numbers if self.of_labels else _class_numbers
        return {**numbers(target, answered, count, size), **_calibration(bins)}


def _fit(predictions: Array, targets: Array, of_labels: bool) -> bool:
    """Return whether these are the arrays that `metric_functions.py` describes."""
    shape = predictions.shape if of_labels else predictions.shape[:1]
    return predictions.ndim == 2 and predictions.shape[1] > 0 and targets.shape == shape


def _of_classes(scores: Array, targets: Array) -> Answers:
    size = scores.shape[1]
    is_known = (targets >= 0) & (targets < size)
    scores, target = scores[is_known], targets[is_known].astype(np.int64)
    answered = scores.argmax(axis=1)
    highest = scores[np.arange(len(scores)), answered]
    with np.errstate(invalid="ignore", over="ignore"):  # a net that has diverged
        below = (scores - highest[:, None]).astype(np.float32, copy=False)
        confidence = 1 / np.exp(below).sum(axis=1, dtype=np.float64)
    return Answers(target, answered, confidence, size)


def _of_labels(scores: Array, targets: Array) -> Answers:
    """Return the answers of all labels that are known, one row of labels after the other."""
    size, is_known = scores.shape[1], targets >= 0
    label = np.broadcast_to(np.arange(size), scores.shape)[is_known]
    scores, is_yes = scores[is_known].astype(np.float64), targets[is_known] > 0
    confidence = 1 / (1 + np.exp(-np.abs(scores)))
    return Answers(label + size * ~is_yes, label + size * ~(scores > 0), confidence, 2 * size)


def _bin_sums(answers: Answers) -> Floats:
    """Return the sum of confidences, in parts, the right answers and all answers of each bin."""
    is_finite = np.isfinite(answers.confidence)
    parts = np.rint(answers.confidence[is_finite] * PARTS)
    is_right = (answers.target == answers.answered)[is_finite]
    # The first bin is from 0 to 1/15 with that, the next one begins above.
    number = np.maximum(np.ceil(parts * NUM_BINS / PARTS).astype(np.int64) - 1, 0)
    sums = [np.bincount(number, weights, NUM_BINS) for weights in (parts, is_right, None)]
    return np.stack(sums, axis=1).astype(np.float64)


def _pairs(states: Sequence[State], size: int) -> tuple[Array, Array, Array]:
    """Return target, answer and number of the answers of each pair that occurs."""
    halves = [np.split(state, 2) for state in states]
    pairs, place = np.unique(np.concatenate([pair for pair, _ in halves]), return_inverse=True)
    count = np.bincount(place.reshape(-1), np.concatenate([each for _, each in halves]), len(pairs))
    target, answered = np.divmod(pairs.astype(np.int64), size)
    return target, answered, count.astype(np.int64)


def _class_numbers(target: Array, answered: Array, count: Array, size: int) -> dict[str, Any]:
    is_right = target == answered
    support, claimed, hits = (
        np.bincount(classes, counts, size)
        for classes, counts in ((target, count), (answered, count), (target[is_right], count[is_right]))
    )
    wrong = np.stack([target, answered, count], axis=1)[~is_right]
    most_first = np.argsort(-wrong[:, 2], kind="stable")[:MOST_PAIRS]
    return {**shares(support, claimed, hits), "confusion": wrong[most_first].tolist()}


def _label_numbers(target: Array, answered: Array, count: Array, size: int) -> dict[str, Any]:
    size //= 2
    is_yes, is_claimed = target < size, answered < size
    masks = (is_yes, is_claimed, is_yes & is_claimed)
    return shares(*(np.bincount(target[mask] % size, count[mask], size) for mask in masks))


def shares(support: Array, claimed: Array, hits: Array) -> dict[str, Any]:
    """Return precision, recall and F1 of each class: None where no answer names it, no sample has it, or neither."""

    def quotients(parts: Array, wholes: Array) -> list[float | None]:
        return [part / of if of else None for part, of in zip(parts.tolist(), wholes.tolist())]

    return {
        "support": support.astype(np.int64).tolist(),
        "precision": quotients(hits, claimed),
        "recall": quotients(hits, support),
        "f1": quotients(2 * hits, support + claimed),
    }


def _calibration(bins: Floats) -> dict[str, Any]:
    """Return the expected calibration error, and the bins that hold an answer."""
    num_answers = bins[:, 2].sum()
    apart = np.abs(bins[:, 0] / PARTS - bins[:, 1]).sum()  # of each bin, times its answers
    filled = bins[bins[:, 2] > 0].tolist()
    return {
        "ece": float(apart / num_answers) if num_answers else math.nan,
        "bins": [[parts / PARTS / count, right / count, int(count)] for parts, right, count in filled],
    }
