"""The half of a task that says what is predicted, where that is clicks: one label or several, each 1, 0 or unknown.

Owns metrics, score and answers; losses are those of `several_labels.py`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping, Sequence

import numpy as np

from mxtrain.data.fields import Array, Arrays
from mxtrain.tasks.metrics import metric_selection
from mxtrain.tasks.targets.several_labels import PredictedLabels, probabilities
from mxtrain.tasks.task import Metric, Score

METRICS = ("auc", "log_loss")


@dataclasses.dataclass(frozen=True)
class PredictedClicks(PredictedLabels):
    """Labels as targets, judged by how they are ranked and by how likely they are."""

    score = Score("auc")

    def summary(self) -> str:
        return f"{', '.join(self.names)} as yes or no"

    def metrics(self) -> Sequence[Metric]:
        return [metric_selection.named(name, self.metric_kind, _scores_and_labels) for name in METRICS]

    def sample_result(self, output: Array | None, arrays: Arrays) -> dict[str, Any]:
        if output is None or np.shape(output) != np.shape(arrays["label"]):
            return {}  # of a user's task
        label = np.ravel(arrays["label"]).tolist()
        return {"label": label, "predicted": probabilities(np.ravel(output)).tolist()}

    def shown(self, output: Any) -> dict[str, Any]:
        """Return the probability of each label by its name, for JSON, from the output of one sample."""
        return dict(zip(self.names, map(float, probabilities(np.ravel(output)))))

    def in_words(self, shown: Mapping[str, Any]) -> str:
        return ", ".join(f"{name} {share:.4f}" for name, share in shown.items())


def _scores_and_labels(output: Any, arrays: Arrays) -> tuple[Array, Array]:
    return output.asnumpy(), arrays["label"]
