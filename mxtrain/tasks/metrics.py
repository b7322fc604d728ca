"""Metrics of evaluations, made with NumPy from what a net has answered."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from mxtrain.cluster.worker_group import in_order
from mxtrain.data.fields import Arrays
from mxtrain.tasks.task import State


class Accuracy:
    """The share of samples whose class is the likeliest, and of those whose class is among the five likeliest."""

    width = 3
    names = ("accuracy", "top5_accuracy")

    def state(self, output: Any, arrays: Arrays) -> State:
        order = np.argsort(-output.asnumpy(), axis=1, kind="stable")[:, :5]
        hits = order == arrays["label"][:, None]
        return np.array([hits[:, 0].sum(), hits.any(axis=1).sum(), len(hits)], np.float64)

    def finish(self, states: Sequence[State]) -> dict[str, float]:
        first, among_five, count = in_order(states).tolist()
        return {"accuracy": first / count, "top5_accuracy": among_five / count}


class Errors:
    """The distance of numbers from those they should be, in the units of the data: MAE, RMSE and R2.

    Over several targets these are means, of squares before the root; each target has its own besides, by its name.
    Differences from `centres` are added up for R2, as squares of far numbers would hide their spread.
    """

    def __init__(self, names: Sequence[str], centres: Any):
        self._names, self._centres = names, np.asarray(centres, np.float64)
        self.width = 1 + 4 * len(names)
        each = (
            [f"{kind}_{name}" for name in names for kind in ("mae", "rmse", "r2")] if len(names) > 1 else []
        )
        self.names = ("mae", "rmse", "r2", *each)
        self.lower_is_better = [name for name in self.names if not name.startswith("r2")]

    def state(self, output: Any, arrays: Arrays) -> State:
        label = np.asarray(arrays["label"], np.float64)
        apart, around = output.asnumpy() - label, label - self._centres
        sums = [values.sum(axis=0) for values in (np.abs(apart), apart**2, around, around**2)]
        return np.concatenate([[len(label)], *sums])

    def finish(self, states: Sequence[State]) -> dict[str, float]:
        count, *sums = in_order(states).tolist()
        absolute, squares, around, around_squares = np.array(sums).reshape(4, -1) / count
        spread = around_squares - around**2
        # Without a spread there is nothing to explain: right is 1, wrong 0, as scikit-learn has it.
        explained = np.where(spread > 0, 1 - squares / np.where(spread > 0, spread, 1), squares == 0)
        found = {
            "mae": float(absolute.mean()),
            "rmse": float(np.sqrt(squares.mean())),
            "r2": float(explained.mean()),
        }
        if len(self._names) > 1:
            for name, *numbers in zip(self._names, absolute, np.sqrt(squares), explained):
                found.update({f"{kind}_{name}": float(each) for kind, each in zip(list(found)[:3], numbers)})
        return found
