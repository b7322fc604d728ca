"""Metrics made of a user's code: `--metric module:callable`, and an object of a program.

Owns calling it, so that what fails there names its flag. Needs no mxnet, but a user's module may import it.
"""

from __future__ import annotations

import math
from typing import Any, Collection, Mapping, Sequence

import numpy as np

from mxtrain.config import program_objects
from mxtrain.config.components import import_path
from mxtrain.core.errors import UsageError, in_user_code
from mxtrain.data.fields import Array, Arrays
from mxtrain.tasks import registry as tasks
from mxtrain.tasks.task import Metric, Output, PredictionsAndTargets, State, Task

TYPES = ("float32", "float64", "float16", "int8", "uint8", "int32", "int64", "bool")


def of_path(task: Task, path: str, part: int) -> Metric:
    """Return the metric of `module:callable` or an object: with state and finish, or a function of what is judged."""
    tasks.share_cores(task.run)
    flag = f"--metric {path}"
    is_object = program_objects.is_object(path)
    found: Any = (
        task.objects.require("--metric", path, part)
        if is_object
        else import_path.load_callable("--metric", path)
    )
    if isinstance(found, type):
        with in_user_code(flag):
            found = found()
    if not (hasattr(found, "state") and hasattr(found, "finish")):
        if not callable(found):
            raise UsageError(f"{flag}: has no state and finish, and is no function; give one of these")
        return UserFunctionMetric(flag, found, task.predictions_and_targets)
    return UserMetric(flag, found)


class UserMetric:
    """A metric object of the user's, whose failures name its flag."""

    def __init__(self, flag: str, metric: Any):
        self.width: int = getattr(metric, "width", 0)  # which is right for any
        self.names: Sequence[str] | None = getattr(metric, "names", None)
        self.lower_is_better: bool | Collection[str] = getattr(metric, "lower_is_better", False)
        self._flag, self._metric = flag, metric

    def state(self, output: Output, arrays: Arrays) -> State:
        """Return the user's state."""
        with in_user_code(self._flag):
            return np.asarray(self._metric.state(output, arrays), np.float64).ravel()

    def finish(self, states: Sequence[State]) -> dict[str, float]:
        """Return the user's numbers."""
        with in_user_code(self._flag):
            found = self._metric.finish(states)
        return _numbers(self._flag, "metric", found)


class UserFunctionMetric:
    """A function of the user's, of all predictions and targets in their order; it may have attributes as a `Metric`.

    A state holds both arrays as they are, each with its type and shape before it.
    """

    width = 0

    def __init__(self, flag: str, function: Any, predictions_and_targets: PredictionsAndTargets):
        self.names: Sequence[str] | None = getattr(function, "names", None)
        self.lower_is_better: bool | Collection[str] = getattr(function, "lower_is_better", False)
        self._flag, self._function, self._predictions_and_targets = flag, function, predictions_and_targets

    def state(self, output: Output, arrays: Arrays) -> State:
        """Return the predictions and the targets of a micro-batch."""
        return np.concatenate(
            [_flat(self._flag, array) for array in self._predictions_and_targets(output, arrays)]
        )

    def finish(self, states: Sequence[State]) -> dict[str, float]:
        """Return what the function gives."""
        parts = [_arrays(state) for state in states]
        if len({tuple(array.shape[1:] for array in both) for both in parts}) > 1:
            raise UsageError(
                f"{self._flag}: micro-batches have other shapes here than there; give an object with state and finish"
            )
        predictions, targets = (np.concatenate(of_all) for of_all in zip(*parts))
        with in_user_code(self._flag):
            found = self._function(predictions, targets)
        return _numbers(self._flag, getattr(self._function, "__name__", "metric"), found)


def _flat(flag: str, array: Array) -> State:
    if array.dtype.name not in TYPES:
        raise UsageError(f"{flag}: the task judges by {array.dtype}; it takes {', '.join(TYPES)}")
    return np.concatenate([[TYPES.index(array.dtype.name), array.ndim], array.shape, array.ravel()])


def _arrays(state: State) -> list[Array]:
    """Return the arrays that a state holds."""
    found = []
    while len(state):
        dtype, num_dimensions = TYPES[int(state[0])], int(state[1])
        shape = tuple(map(int, state[2 : 2 + num_dimensions]))
        end = 2 + num_dimensions + math.prod(shape)
        found.append(state[2 + num_dimensions : end].astype(dtype).reshape(shape))
        state = state[end:]
    return found


def _numbers(flag: str, name: str, value: Any) -> dict[str, float]:
    """Return numbers by their names; UsageError where the user's code gave something else."""
    named = value if isinstance(value, Mapping) else {name: value}
    try:
        return {str(key): float(number) for key, number in named.items()}
    except (TypeError, ValueError):
        raise UsageError(f"{flag}: gave {type(value).__name__}; give a number, or a dict of them") from None
