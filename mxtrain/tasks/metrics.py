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

    def state(self, output: Any, arrays: Arrays) -> State:
        order = np.argsort(-output.asnumpy(), axis=1, kind="stable")[:, :5]
        hits = order == arrays["label"][:, None]
        return np.array([hits[:, 0].sum(), hits.any(axis=1).sum(), len(hits)], np.float64)

    def finish(self, states: Sequence[State]) -> dict[str, float]:
        first, among_five, count = in_order(states).tolist()
        return {"accuracy": first / count, "top5_accuracy": among_five / count}
