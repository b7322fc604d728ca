"""Metrics of several labels a sample. Labels below 0 are unknown, and do not count."""

from __future__ import annotations

import math
from typing import Sequence

import numpy as np
import numpy.typing as npt

from mxtrain.cluster.worker_group import in_order
from mxtrain.data.fields import Arrays
from mxtrain.tasks.task import Output, State

Floats = npt.NDArray[np.float64]


class AveragePrecision:
    """The mean over classes of the area under precision and recall, without interpolation; ties are one threshold.

    Classes that no sample has do not count. It is no sum over samples, and so a state of all scores and labels.
    """

    width = 0
    names = ("mean_average_precision",)

    def __init__(self, num_classes: int):
        self._num_classes = num_classes

    def state(self, output: Output, arrays: Arrays) -> State:
        both: State = np.stack([output.asnumpy(), arrays["label"]], axis=1).astype(np.float64).ravel()
        return both

    def finish(self, states: Sequence[State]) -> dict[str, float]:
        rows = np.concatenate(states).reshape(-1, 2, self._num_classes)
        found = [average_precision(rows[:, 0, k], rows[:, 1, k]) for k in range(self._num_classes)]
        present = [each for each in found if not math.isnan(each)]
        return {"mean_average_precision": float(np.mean(present)) if present else math.nan}


def average_precision(scores: Floats, labels: Floats) -> float:
    """Return the mean of the precision at each sample that has the label; NaN where none has it."""
    scores, is_yes = scores[labels >= 0], labels[labels >= 0] > 0
    if not is_yes.any():
        return math.nan
    order = np.argsort(-scores, kind="stable")
    scores, hits = scores[order], np.cumsum(is_yes[order])
    last = np.append(np.flatnonzero(scores[1:] != scores[:-1]), len(scores) - 1)  # of those with equal scores
    precision, gained = hits[last] / (last + 1), np.diff(hits[last], prepend=0)
    return float((precision * gained).sum() / hits[-1])


class F1:
    """F1 at a probability of a half: over all decisions (micro), and its mean over classes (macro).

    A class that no sample has and no answer claims does not count.
    """

    names = ("micro_f1", "macro_f1")

    def __init__(self, num_classes: int):
        self.width = 3 * num_classes

    def state(self, output: Output, arrays: Arrays) -> State:
        label, is_claimed = arrays["label"], output.asnumpy() > 0
        found, missed = is_claimed & (label == 1), ~is_claimed & (label == 1)
        wrong = is_claimed & (label == 0)
        counts: State = np.concatenate([each.sum(axis=0) for each in (found, missed, wrong)]).astype(
            np.float64
        )
        return counts

    def finish(self, states: Sequence[State]) -> dict[str, float]:
        found, missed, wrong = in_order(states).reshape(3, -1)
        both, all_of = 2 * found, 2 * found + missed + wrong
        counts = all_of > 0
        if not counts.any():
            return {"micro_f1": math.nan, "macro_f1": math.nan}
        macro = (both[counts] / all_of[counts]).mean()
        return {"micro_f1": float(both.sum() / all_of.sum()), "macro_f1": float(macro)}
