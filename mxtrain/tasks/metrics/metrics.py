"""Metrics of evaluations, made with NumPy from what a net has answered."""

from __future__ import annotations

from typing import Sequence

import numpy as np

from mxtrain.cluster.worker_group import in_order
from mxtrain.data.fields import Array, Arrays
from mxtrain.tasks.task import Output, State

NOWHERE = 1 << 32  # behind all classes


def ranks_of_classes(scores: Array, labels: Array) -> Array:
    """Return the place of each sample's class among all, by scores from the highest on; of equals the first is before.

    NOWHERE for a class that there is not, or whose score is no number. Counted, which takes a twentieth of the time of
    sorting a thousand classes.
    """
    size, number = scores.shape[1], labels.astype(np.int64)
    is_there = (number == labels) & (number >= 0) & (number < size)
    number = np.where(is_there, number, 0)
    own = scores[np.arange(len(scores)), number][:, None]
    before: Array = (scores > own).sum(axis=1)
    is_equal = scores == own
    if is_equal.sum() > len(scores):
        before += (is_equal & (np.arange(size) < number[:, None])).sum(axis=1)
    return np.where(is_there & ~np.isnan(own[:, 0]), before, NOWHERE)


class Accuracy:
    """The share of samples whose class is the likeliest, and of those whose class is among the five likeliest."""

    width = 3
    names = ("accuracy", "top5_accuracy")

    def state(self, output: Output, arrays: Arrays) -> State:
        found = ranks_of_classes(output.asnumpy(), arrays["label"])
        return np.array([(found == 0).sum(), (found < 5).sum(), len(found)], np.float64)

    def finish(self, states: Sequence[State]) -> dict[str, float]:
        first, among_five, count = in_order(states).tolist()
        return {"accuracy": first / count, "top5_accuracy": among_five / count}


class RankAccuracy(Accuracy):
    """The same of outputs whose rows begin with the place of the sample's class among all."""

    def state(self, output: Output, arrays: Arrays) -> State:
        own = output.asnumpy()[:, 0]
        return np.array([(own == 0).sum(), (own < 5).sum(), len(own)], np.float64)


class Errors:
    """The distance of numbers from those they should be, in the units of the data: MAE, RMSE and R2.

    Over several targets these are means, of squares before the root; each target has its own besides, by its name.
    A state has the mean of its targets and their squared distances from it, as squares of far numbers would hide their
    spread; all are put together from the first one's mean, so that targets that never change have a spread of 0.
    """

    def __init__(self, names: Sequence[str]):
        self._names = names
        self.width = 1 + 4 * len(names)
        each = (
            [f"{metric}_{name}" for name in names for metric in ("mae", "rmse", "r2")]
            if len(names) > 1
            else []
        )
        self.names = ("mae", "rmse", "r2", *each)
        self.lower_is_better = [name for name in self.names if not name.startswith("r2")]

    def state(self, output: Output, arrays: Arrays) -> State:
        label = np.asarray(arrays["label"], np.float64)
        apart, around = output.asnumpy() - label, label - label[0]
        of_apart = [values.sum(axis=0) for values in (np.abs(apart), apart**2)]
        mean = around.mean(axis=0)
        return np.concatenate([[len(label)], *of_apart, label[0] + mean, ((around - mean) ** 2).sum(axis=0)])

    def finish(self, states: Sequence[State]) -> dict[str, float]:
        counts = np.array([state[0] for state in states])
        count = in_order(counts)
        of_apart, means, within = np.split(
            np.array(states)[:, 1:], [2 * len(self._names), 3 * len(self._names)], axis=1
        )
        absolute, squares = in_order(of_apart).reshape(2, -1) / count
        shares, around = counts[:, None] / count, means - means[0]
        spread = in_order(within) / count + in_order(shares * (around - in_order(shares * around)) ** 2)
        # Without a spread there is nothing to explain: right is 1, wrong 0, as scikit-learn has it.
        explained = np.where(spread > 0, 1 - squares / np.where(spread > 0, spread, 1), squares == 0)
        errors = {
            "mae": float(absolute.mean()),
            "rmse": float(np.sqrt(squares.mean())),
            "r2": float(explained.mean()),
        }
        if len(self._names) > 1:
            for name, *numbers in zip(self._names, absolute, np.sqrt(squares), explained):
                errors.update(
                    {f"{metric}_{name}": float(each) for metric, each in zip(list(errors)[:3], numbers)}
                )
        return errors
