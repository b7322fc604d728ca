"""The numbers of a run's evaluations, and the one that decides: `--metric` and `--score`.

Owns the choice, and metrics made of a user's code. Formulas are `metric_functions.py`'s; which metrics a task has
anyway, and what its samples are judged by, is the task's. Needs no mxnet, but a user's module may import it.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from typing import Any, Collection, Mapping, NamedTuple, Sequence

import numpy as np

from mxtrain.config import program_objects
from mxtrain.config.components import import_path
from mxtrain.config.components import metrics as components
from mxtrain.config.components.component import Spec, load
from mxtrain.core.errors import UsageError, in_user_code, nearest
from mxtrain.data.fields import Array, Arrays
from mxtrain.tasks import registry as tasks
from mxtrain.tasks.interfaces.learning import NO_NUMBER
from mxtrain.tasks.metrics.class_report import ClassReport
from mxtrain.tasks.metrics.metric_functions import Formula
from mxtrain.tasks.task import Metric, Output, PredictionsAndTargets, Score, State, Task

TYPES = ("float32", "float64", "float16", "int8", "uint8", "int32", "int64", "bool")


class MetricSelection(NamedTuple):
    """The metrics of a run's evaluations, and its score."""

    metrics: Sequence[Metric]
    score: Score


def of_task(task: Task) -> MetricSelection:
    """Return the judgement of a task's run, by --score or the task's own; UsageError for a score that nothing gives."""
    metrics = metrics_of(task)
    report = report_of(task)
    return MetricSelection(metrics, _score(task, [*metrics, *([report] if report else [])]))


def metrics_of(task: Task) -> list[Metric]:
    """Return the metrics that the task has anyway, and those of --metric; UsageError for one that does not fit it."""
    metrics = _own(task)
    has = {"loss", *(name for metric in metrics for name in names_of(metric) or ())}
    for part, spec in enumerate(components.parse(task.run.output.metric)):
        if _is_had_anyway(task, spec.name, has):
            continue
        metric_of_flag = _make_metric(task, spec, part)
        names = names_of(metric_of_flag) or ()
        if isinstance(metric_of_flag, Named) and has.issuperset(names):
            continue  # the same number
        for each in has.intersection(names):
            raise UsageError(duplicate_message(each))
        has.update(names)
        metrics.append(metric_of_flag)
    return metrics


def names_beside(task: Task) -> frozenset[str]:
    """Return the names of numbers that evaluations have anyway, and that neither --metric nor the task's score is."""
    report = report_of(task)
    own = [*_own(task), *([report] if report else [])]
    has = frozenset(name for metric in own for name in names_of(metric) or ())
    requested: set[str] = set()
    for part, spec in enumerate(components.parse(task.run.output.metric)):
        is_had = _is_had_anyway(task, spec.name, has)
        requested.update({spec.name} if is_had else names_of(_make_metric(task, spec, part)) or ())
    return has - requested


def report_of(task: Task) -> ClassReport | None:
    """Return what reports on each class, where the task judges classes or labels. Its number gives way to any other."""
    if task.metric_kind not in ("classes", "labels"):
        return None
    predictions_and_targets = tasks.without_failures(
        task, task.predictions_and_targets, (np.zeros(0), np.zeros(0))
    )
    return ClassReport(predictions_and_targets, of_labels=task.metric_kind == "labels")


def duplicate_message(name: str) -> str:
    """Return the message about a number of evaluations that two metrics give."""
    return f"--metric: another number of this run's evaluations is called {name} already; give yours another name"


def is_users(metric: Metric) -> bool:
    """Return whether a metric is code of the user's, which may draw or add in another order elsewhere."""
    return isinstance(metric, (UserMetric, UserFunctionMetric))


def names_of(metric: Metric) -> Sequence[str] | None:
    """Return the names of a metric's numbers; None where only an evaluation can tell."""
    names: Sequence[str] | None = getattr(metric, "names", None)
    return names


def value_of(score: Score, scores: Mapping[str, Any]) -> float:
    """Return the score among the numbers of an evaluation; UsageError where it is not there, or is no number."""
    if f"val_{score.name}" not in scores:
        known = ", ".join(name[4:] for name in scores if name.startswith("val_"))
        raise UsageError(f"--score {score.name}: the evaluation gave {known}; give one of them")
    value: float = scores[f"val_{score.name}"]
    if math.isnan(value):
        raise UsageError(
            f"--score {score.name}: {NO_NUMBER} over the samples of --val, as where they lack a class; give another"
        )
    return value


def _is_had_anyway(task: Task, name: str, has: Collection[str]) -> bool:
    """Return whether a task has a metric of --metric already; a user's task may call something else so."""
    return name in components.METRICS and name in has and tasks.is_built_in(task)


def _own(task: Task) -> list[Metric]:
    """Return the metrics that the task has anyway; failures in those of a user's task name its flag."""
    if tasks.is_built_in(task):
        return list(task.metrics())
    flag = f"--task {task.run.model.task}"
    with in_user_code(flag):
        return [UserMetric(flag, metric) for metric in task.metrics()]


def _score(task: Task, metrics: Sequence[Metric]) -> Score:
    wanted = re.sub("^val_", "", task.run.output.score) or task.score.name
    if wanted == task.score.name:
        return task.score
    if wanted == "loss":
        return Score("loss", is_lower_better=True)
    for metric in metrics:
        names = names_of(metric)
        if names is None or wanted in names:  # of one whose names are not known the first evaluation tells
            return Score(wanted, _is_lower_better(metric, wanted))
    known = list(
        dict.fromkeys(("loss", task.score.name, *(name for each in metrics for name in names_of(each) or ())))
    )
    raise UsageError(
        f"--score {wanted}: no number of this run's evaluations{nearest(wanted, known)} ({', '.join(known)}; --metric "
        "adds others)"
    )


def _is_lower_better(metric: Metric, name: str) -> bool:
    lower: bool | Collection[str] = getattr(metric, "lower_is_better", False)
    return lower if isinstance(lower, bool) else name in lower


def _make_metric(task: Task, spec: Spec, part: int) -> Metric:
    """Return the metric that is this part of --metric; UsageError where it does not fit the task."""
    name, hyperparameters = spec
    if name not in components.METRICS:
        return _users(task, name, part)
    fitting = components.of_target(task.metric_kind)
    if name not in fitting:
        has = f"it takes {', '.join(fitting)}, or module:callable" if fitting else "it takes module:callable"
        raise UsageError(f"--metric {name}: does not fit --task {task.run.model.task}; {has}")
    metric = fitting[name]
    formula: Formula = load(metric.factories[task.metric_kind])
    if hyperparameters:
        formula = formula._replace(kept=functools.partial(formula.kept, **hyperparameters))
    label = (metric.label or name).format(**hyperparameters)
    return Named((label,), formula, task.predictions_and_targets)


@dataclasses.dataclass(frozen=True)
class Named:
    """A metric by a formula, of what a task judges. A state is a table, with the number of its columns before it."""

    names: Sequence[str]
    formula: Formula
    predictions_and_targets: PredictionsAndTargets

    width = 0

    @property
    def lower_is_better(self) -> bool:
        """As `Formula` says."""
        return self.formula.is_lower_better

    def state(self, output: Output, arrays: Arrays) -> State:
        """Return what is kept of a micro-batch."""
        kept = self.formula.kept(*self.predictions_and_targets(output, arrays))
        return np.concatenate([kept.shape[1:], kept.ravel()])

    def finish(self, states: Sequence[State]) -> dict[str, float]:
        """Return the number by its name."""
        tables = [state[1:].reshape(-1, int(state[0])) for state in states]
        return {self.names[0]: self.formula.number(np.concatenate(tables))}


# ------------------------------------------------------------------------------------------------------------
# The user's own


def _users(task: Task, path: str, part: int) -> Metric:
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
