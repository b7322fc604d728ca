"""The numbers of a run's evaluations, and the one that decides: `--metric` and `--score`.

Owns the choice. Formulas are `metric_functions.py`'s and `ranking_functions.py`'s, metrics made of a user's code
`user_metrics.py`'s; which metrics a task has anyway, and what its samples are judged by, is the task's.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from typing import Any, Callable, Collection, Mapping, NamedTuple, Sequence

import numpy as np

from mxtrain.config.components import metrics as components
from mxtrain.config.components.component import Spec, load
from mxtrain.core.errors import UsageError, in_user_code, nearest
from mxtrain.data.fields import Array, Arrays
from mxtrain.tasks import registry as tasks
from mxtrain.tasks.interfaces.learning import NO_NUMBER
from mxtrain.tasks.metrics import user_metrics
from mxtrain.tasks.metrics.class_report import ClassReport
from mxtrain.tasks.metrics.metric_functions import Formula
from mxtrain.tasks.metrics.user_metrics import UserFunctionMetric, UserMetric
from mxtrain.tasks.task import Metric, Output, PredictionsAndTargets, Report, Score, State, Task


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
    own: list[Metric | Report] = [*_own(task), *([report] if report else [])]
    has = frozenset(name for metric in own for name in names_of(metric) or ())
    requested: set[str] = set()
    for part, spec in enumerate(components.parse(task.run.output.metric)):
        is_had = _is_had_anyway(task, spec.name, has)
        requested.update({spec.name} if is_had else names_of(_make_metric(task, spec, part)) or ())
    return has - requested


def report_of(task: Task) -> Report | None:
    """Return what reports on each class: the task's own, or that of classes and labels where it judges these.

    Its numbers give way to any other.
    """
    own = task.report()
    if own is not None:
        return own
    if task.metric_kind not in ("classes", "labels"):
        return None
    predictions_and_targets = tasks.without_failures(
        task, task.predictions_and_targets, (np.zeros(0), np.zeros(0))
    )
    return ClassReport(predictions_and_targets, of_labels=task.metric_kind == "labels")


def duplicate_message(name: str) -> str:
    """Return the message about a number of evaluations that two metrics give."""
    return f"--metric: another number of this run's evaluations is called {name} already; give yours another name"


def remarks(metrics: Sequence[Metric], scores: Mapping[str, Any]) -> list[str]:
    """Return a line for each metric by name that is no number in an evaluation, with the reason."""
    named = [metric for metric in metrics if isinstance(metric, Named)]
    return [
        f"val_{metric.names[0]} {NO_NUMBER} over the samples of --val, as {metric.missing}"
        for metric in named
        if math.isnan(scores[f"val_{metric.names[0]}"])
    ]


def is_users(metric: Metric) -> bool:
    """Return whether a metric is code of the user's, which may draw or add in another order elsewhere."""
    return isinstance(metric, (UserMetric, UserFunctionMetric))


def names_of(metric: Metric | Report) -> Sequence[str] | None:
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


def _score(task: Task, metrics: Sequence[Metric | Report]) -> Score:
    wanted = re.sub("^val_", "", task.run.output.score) or task.score.name
    if wanted == task.score.name:
        return task.score
    if wanted == "loss":
        return Score("loss", is_lower_better=True)
    for metric in metrics:
        names = names_of(metric)
        if isinstance(metric, Named) and metric.lower_is_better is None and wanted in metric.names:
            raise UsageError(
                f"--score {wanted}: neither higher nor lower is better; give another, as log_loss"
            )
        if names is None or wanted in names:  # of one whose names are not known the first evaluation tells
            return Score(wanted, _is_lower_better(metric, wanted))
    known = list(
        dict.fromkeys(("loss", task.score.name, *(name for each in metrics for name in names_of(each) or ())))
    )
    raise UsageError(
        f"--score {wanted}: no number of this run's evaluations{nearest(wanted, known)} ({', '.join(known)}; --metric "
        "adds others)"
    )


def _is_lower_better(metric: Metric | Report, name: str) -> bool:
    lower: bool | Collection[str] = getattr(metric, "lower_is_better", False)
    return lower if isinstance(lower, bool) else name in lower


def _make_metric(task: Task, spec: Spec, part: int) -> Metric:
    """Return the metric that is this part of --metric; UsageError where it does not fit the task."""
    name, hyperparameters = spec
    if name not in components.METRICS:
        return user_metrics.of_path(task, name, part)
    fitting = components.of_target(task.metric_kind)
    if name not in fitting:
        has = f"it takes {', '.join(fitting)}, or module:callable" if fitting else "it takes module:callable"
        raise UsageError(f"--metric {name}: does not fit --task {task.run.model.task}; {has}")
    metric = fitting[name]
    formula: Formula = load(metric.factories[task.metric_kind])
    groups = None
    if metric.is_by_user:
        formula = formula._replace(number=functools.partial(formula.number, k=hyperparameters["k"]))
        groups = _groups(task, name, hyperparameters["by"])
    elif hyperparameters:
        formula = formula._replace(kept=functools.partial(formula.kept, **hyperparameters))
    label = (metric.label or name).format(**hyperparameters)
    return Named((label,), formula, task.predictions_and_targets, groups, metric.missing)


def named(name: str, metric_kind: str, predictions_and_targets: PredictionsAndTargets) -> Named:
    """Return the metric of a name that takes no numbers, for a task of this kind that has it anyway."""
    metric = components.METRICS[name]
    return Named(
        (name,), load(metric.factories[metric_kind]), predictions_and_targets, missing=metric.missing
    )


def _groups(task: Task, name: str, by: str) -> Callable[[Arrays], Array]:
    try:
        return task.groups(by)
    except UsageError as error:
        raise UsageError(f"--metric {name}: ranks the candidates of each user; {error}") from None


@dataclasses.dataclass(frozen=True)
class Named:
    """A metric by a formula, of what a task judges. A state is a table, with the number of its columns before it."""

    names: Sequence[str]
    formula: Formula
    predictions_and_targets: PredictionsAndTargets
    groups: Callable[[Arrays], Array] | None = None  # where it is by user, whose each sample is
    missing: str = ""  # where the number has no meaning

    width = 0

    @property
    def lower_is_better(self) -> bool | None:
        """As `Formula` says."""
        return self.formula.is_lower_better

    def state(self, output: Output, arrays: Arrays) -> State:
        """Return what is kept of a micro-batch."""
        predictions, targets = self.predictions_and_targets(output, arrays)
        if self.groups is None:
            kept = self.formula.kept(predictions, targets)
        else:
            kept = self.formula.kept(predictions, targets, self._groups_of(arrays, len(targets)))
        return np.concatenate([kept.shape[1:], kept.ravel()])

    def finish(self, states: Sequence[State]) -> dict[str, float]:
        """Return the number by its name."""
        tables = [state[1:].reshape(-1, int(state[0])) for state in states]
        return {self.names[0]: self.formula.number(np.concatenate(tables))}

    def _groups_of(self, arrays: Arrays, num_samples: int) -> Array:
        """Return the int64 id of each sample's user; UsageError where they do not fit the samples."""
        assert self.groups is not None, "a metric by user"
        groups = np.asarray(self.groups(arrays))
        if groups.dtype.kind not in "iu" or groups.size != num_samples:
            raise UsageError(
                f"--metric {self.names[0]}: `groups` of the task has to give {num_samples} whole numbers, one for each "
                f"sample that counts, and gives {groups.dtype} of shape {groups.shape}"
            )
        return groups.reshape(-1).astype(np.int64)
