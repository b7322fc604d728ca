"""Metrics of evaluations by name: `--metric`. To add one is an entry here, and a formula for what it judges.

Owns their numbers, and what they judge. The formulas are in `mxtrain/tasks/metrics/`: `metric_functions.py`,
and of rankings `ranking_functions.py`.
"""

from __future__ import annotations

import dataclasses
from typing import Mapping

from mxtrain.config import program_objects
from mxtrain.config.components import component
from mxtrain.config.components.component import Component, Number, Spec, by_name
from mxtrain.core.errors import UsageError


@dataclasses.dataclass(frozen=True)
class Metric(Component):
    """A metric. `factories` has a `Formula` for each kind of thing that it judges, as a task's `metric_kind` says."""

    factories: Mapping[str, str] = dataclasses.field(default_factory=dict)
    label: str = ""  # of the result, where that is not the name; may hold its numbers
    missing: str = "no sample counts"  # where it is no number
    is_by_user: bool = False  # ranks the candidates of each user, of tasks that say whose a sample is


_OWN = "mxtrain.tasks.metrics.metric_functions:"
_RANKING = "mxtrain.tasks.metrics.ranking_functions:"

# The first candidates that count, and what a task calls those whose candidates are ranked, as the column of their ids.
_OF_USERS = {"k": Number(10, 1, 1 << 22), "by": Number("", 0, 0)}

METRICS = by_name(
    Metric("accuracy", "the share that is right", factories={"classes": _OWN + "ACCURACY"}),
    Metric(
        "topk",
        "the share whose class is among the `k` likeliest",
        numbers={"k": Number(5, 1, 1 << 22)},
        factories={"classes": _OWN + "TOPK"},
        label="top{k}_accuracy",
    ),
    Metric(
        "balanced_accuracy",
        "the mean over classes of the share that is right",
        factories={"classes": _OWN + "BALANCED_ACCURACY"},
    ),
    Metric("macro_f1", "the mean over classes of their F1", factories={"classes": _OWN + "MACRO_F1"}),
    Metric(
        "precision",
        "of the second of two classes, else the mean over classes",
        factories={"classes": _OWN + "PRECISION"},
    ),
    Metric("recall", "as precision", factories={"classes": _OWN + "RECALL"}),
    Metric(
        "auc",
        "the area under the curve of right against false alarms, as precision",
        factories={"classes": _OWN + "AUC_OF_CLASSES", "labels": _OWN + "AUC_OF_LABELS"},
        missing="there is no sample with the label, or none without",
    ),
    Metric(
        "average_precision",
        "the area under the curve of precision against recall",
        factories={"classes": _OWN + "AVERAGE_PRECISION"},
        missing="no class has a sample",
    ),
    Metric(
        "log_loss",
        "the mean negative logarithm of the probability of what came",
        factories={"classes": _OWN + "LOG_LOSS_OF_CLASSES", "labels": _OWN + "LOG_LOSS_OF_LABELS"},
    ),
    Metric(
        "calibration",
        "the mean probability, over the share that has the label",
        factories={"labels": _OWN + "CALIBRATION"},
        missing="no sample has the label",
    ),
    Metric(
        "ndcg",
        "the gain of each user's first `k` candidates, later ones for less, over what the best order gains",
        numbers=_OF_USERS,
        factories={"labels": _RANKING + "NDCG_OF_LABELS", "numbers": _RANKING + "NDCG_OF_NUMBERS"},
        label="ndcg_at_{k}",
        missing="no user has a candidate with a gain",
        is_by_user=True,
    ),
    Metric(
        "recall_at",
        "the share of what a user has chosen that is among the first `k` candidates",
        numbers=_OF_USERS,
        factories={"labels": _RANKING + "RECALL_AT"},
        label="recall_at_{k}",
        missing="no user has a candidate with the label",
        is_by_user=True,
    ),
    Metric("mae", "the mean absolute error", factories={"numbers": _OWN + "MAE"}),
    Metric("rmse", "the root of the mean squared error", factories={"numbers": _OWN + "RMSE"}),
    Metric("r2", "the share of the variance that is explained", factories={"numbers": _OWN + "R2"}),
    Metric(
        "perplexity",
        "e to the mean negative log-likelihood",
        factories={"likelihoods": _OWN + "PERPLEXITY"},
    ),
)


def of_target(target: str) -> dict[str, Metric]:
    """Return the metrics that judge this: classes, labels, numbers or likelihoods."""
    return {name: metric for name, metric in METRICS.items() if target in metric.factories}


def in_words() -> str:
    """Return all names, by what they judge."""
    targets = dict.fromkeys(target for metric in METRICS.values() for target in metric.factories)
    return "; ".join(f"of {target} {' | '.join(of_target(target))}" for target in targets)


def parse(text: str) -> list[Spec]:
    """Parse --metric: names joined by commas."""
    if not text:
        return []
    names = program_objects.split_names(text)
    if not all(names):
        raise UsageError(f"--metric {text}: a name is missing; give names joined by commas")
    return [component.parse("--metric", part, METRICS) for part in names]
