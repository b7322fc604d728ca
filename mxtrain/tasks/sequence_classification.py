"""Classification of texts: one of several classes for each text (docs/text.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Sequence

from mxtrain.config import Run
from mxtrain.data.fields import Array, Arrays
from mxtrain.data.interfaces import Dataset, Record
from mxtrain.data.labels import label_checks
from mxtrain.data.text import texts
from mxtrain.data.text.tokens import OF_DOCUMENTS
from mxtrain.data.user import user_samples
from mxtrain.tasks.classes import answered, classes_in_words, likeliest_first
from mxtrain.tasks.metrics.text_metrics import Confusion
from mxtrain.tasks.task import Metric, Score
from mxtrain.tasks.texts import TextTask

if TYPE_CHECKING:
    from mxtrain.runtime.types import NDArray, NDArrays, Net


class SequenceClassification(TextTask):
    """One of several classes for each text."""

    flags = frozenset(
        ("model", "loss", "window", "augment", "num_classes", "sampling", "label_smoothing", "class_weights")
    )
    what_has_labels = OF_DOCUMENTS
    looks_at = 1000
    score = Score("accuracy")

    @classmethod
    def record_of(cls, key: int, item: object, user: str) -> Record:
        """Return the record of a pair (text, class), whose tokens are the text's bytes."""
        text, label = user_samples.pair(key, item, user)
        return user_samples.record_of_pair(key, (texts.payload_of(text, key, user), label), user)

    @classmethod
    def class_names_of(cls, run: Run, train: Dataset, val: Dataset | None) -> list[str]:
        return label_checks.class_names(train, val, run.data.num_classes, of_text=True)

    def check(self, dataset: Dataset) -> None:
        super().check(dataset)
        label_checks.check(dataset, self.class_names, of_text=True)

    def metrics(self) -> Sequence[Metric]:
        return (Confusion(len(self.class_names)),)

    def sample_result(self, output: Array | None, arrays: Arrays) -> dict[str, Any]:
        return answered(output, arrays["label"])

    def answer(self, net: Net, arrays: NDArrays) -> NDArray:
        """Return the probability of each class."""
        return self._probabilities(net, arrays)

    def shown(self, output: Array) -> dict[str, Any]:
        """Return all classes with their probabilities, the likeliest first."""
        return likeliest_first(self.class_names, output)

    def in_words(self, shown: Mapping[str, Any]) -> str:
        return classes_in_words(shown)

    def _answer(self) -> tuple[int, ...]:
        return (len(self.class_names),)
