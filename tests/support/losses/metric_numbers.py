"""The number of a metric over arrays that are cut into micro-batches."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxtrain.tasks.metrics.metric_selection import Named


def of_micro_batches(metric: Named, predictions: Any, arrays: dict[str, Any], cuts: tuple[int, ...]) -> float:
    """The number over samples that are cut there."""
    parts = [np.split(each, cuts) for each in (predictions, *arrays.values())]
    states = [metric.state(output, dict(zip(arrays, of_each))) for output, *of_each in zip(*parts)]
    return metric.finish(states)[metric.names[0]]
