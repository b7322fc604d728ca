"""The record `worst` of an evaluation: the samples with the largest losses, and what the task says of each.

Owns which samples these are, the same whoever has computed them.
"""

from __future__ import annotations

import heapq
import json
from typing import Any, Callable, NamedTuple

import numpy as np

from mxtrain.cluster.worker_group import WorkerGroup, gather
from mxtrain.data.fields import Array, Arrays
from mxtrain.tasks.task import Output

COUNT = 32


class _Sample(NamedTuple):
    order: tuple[
        float, int
    ]  # smallest first: the loss, largest first, then the position; no number before any
    loss: float
    result: dict[str, Any]


class WorstSamples:
    """The worst of the samples that this worker has seen; `result_of` is the task's `sample_result`."""

    def __init__(self, result_of: Callable[[Any, Arrays], dict[str, Any]]):
        self._result_of = result_of
        self._worst: list[_Sample] = []

    def add(self, losses: Array, samples: Array, output: Output, arrays: Arrays) -> None:
        """Take note of a micro-batch, whose `samples` come behind those before; `losses` are of any shape.

        Those of which the task tells more than one loss, as for each token, are added up. Losses that have no row for
        each sample are nobody's.
        """
        count = len(samples)
        if losses.shape[:1] != (count,):
            return
        of_samples = losses.reshape(count, -1).sum(axis=1, dtype=np.float64)
        badness = np.where(np.isnan(of_samples), np.inf, of_samples)
        is_full = len(self._worst) == COUNT
        chosen = np.flatnonzero(badness > -self._worst[-1].order[0]) if is_full else np.arange(count)
        if not len(chosen):
            return
        chosen = chosen[np.argsort(-badness[chosen], kind="stable")][:COUNT]
        has_rows = getattr(output, "shape", ())[:1] == (count,)
        outputs = output.asnumpy() if has_rows else [None] * count
        candidates = [
            _Sample(
                (-float(badness[row]), int(samples[row])),
                float(of_samples[row]),
                self._result_of(outputs[row], {name: array[row] for name, array in arrays.items()}),
            )
            for row in chosen.tolist()
        ]
        self._worst = list(heapq.merge(self._worst, candidates, key=lambda each: each.order))[:COUNT]

    def of_all(self, group: WorkerGroup) -> list[dict[str, Any]]:
        """Return the worst samples of all workers, the worst first; a collective."""
        orders = gather(group, [number for each in self._worst for number in each.order])
        chosen = set(sorted(map(tuple, orders.reshape(-1, 2).tolist()))[:COUNT])
        own = [(each.order, each.loss, each.result) for each in self._worst if each.order in chosen]
        lines = "".join(json.dumps(each, default=_plain) + "\n" for each in own).encode()
        lines_of_all = gather(group, list(lines)).astype(np.uint8).tobytes()  # a number a byte
        of_all = sorted(map(json.loads, lines_of_all.splitlines()), key=lambda each: each[0])
        return [{"sample": order[1], "loss": loss, **result} for order, loss, result in of_all]


def _plain(value: Any) -> Any:
    """Return what a task says, as JSON can hold it: numbers and arrays of NumPy's as such, all else as text."""
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else str(value)
