"""Classification of tokens: one of several classes for each word of a text, as of names in it (docs/text.md).

Owns labels of tokens, and how words, and entities of several words, are shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Sequence

import numpy as np

from mxtrain.config import Run
from mxtrain.core.errors import UsageError
from mxtrain.data.fields import Array, Arrays
from mxtrain.data.interfaces import Dataset, Record
from mxtrain.data.labels import label_checks
from mxtrain.data.text import texts, tokenizers
from mxtrain.data.text.tokens import OF_TOKENS
from mxtrain.tasks.metrics.text_metrics import Confusion, Entities, is_bio, spans
from mxtrain.tasks.task import Metric, Score
from mxtrain.tasks.texts import TextTask

if TYPE_CHECKING:
    from mxtrain.runtime.types import NDArray, NDArrays, Net

WRONG_WORDS = 10  # that are told of a text


class TokenClassification(TextTask):
    """One of several classes for each token that has a label: the first of each word."""

    flags = frozenset(("model", "loss", "window", "augment", "label_smoothing"))
    what_has_labels = OF_TOKENS

    @classmethod
    def record_of(cls, key: int, item: object, user: str) -> Record:
        raise UsageError(
            f"{user}: classes of words are read from .rec files; pack them with --from tagged_text"
        )

    @classmethod
    def class_names_of(cls, run: Run, train: Dataset, val: Dataset | None) -> list[str]:
        names = texts.token_class_names(train)
        if val is not None:
            label_checks.refuse_other_names(val, names)
        return names

    def check(self, dataset: Dataset) -> None:
        super().check(dataset)
        label_checks.refuse_other_names(dataset, self.class_names)

    @property
    def score(self) -> Score:
        return Score("entity_f1" if is_bio(self.class_names) else "macro_f1")

    def metrics(self) -> Sequence[Metric]:
        entities = [Entities(self.class_names)] if is_bio(self.class_names) else []
        return (Confusion(len(self.class_names)), *entities)

    def sample_result(self, output: Array | None, arrays: Arrays) -> dict[str, Any]:
        """Return the number of words, and up to ten that are taken for another class: place, class, answer."""
        has_label = arrays["label"] >= 0
        if output is None or output.ndim != 2:
            return {}
        label, found = arrays["label"][has_label].astype(int), output[has_label].argmax(axis=1)
        wrong = np.flatnonzero(label != found)[:WRONG_WORDS].tolist()
        return {
            "words": len(label),
            "wrong": [
                [place, *(self.class_names[each[place]] for each in (label, found))] for place in wrong
            ],
        }

    def answer(self, net: Net, arrays: NDArrays) -> NDArray:
        """Return each token's id, -1 behind the end, whether it begins a word, and the probability of each class."""
        from mxtrain.runtime import mx

        ids = (arrays["tokens"].astype("float32") + 1) * arrays["mask"] - 1
        begins = arrays["label"] >= 0
        found = self._probabilities(net, arrays)
        together: NDArray = mx.nd.concat(ids.expand_dims(2), begins.expand_dims(2), found, dim=2)
        return together

    def shown(self, output: Array) -> dict[str, Any]:
        """Return the words with the likeliest class of each; and entities, where classes are those of entities."""
        starts = np.flatnonzero(output[:, 1])
        of_words, likeliest = output[starts, 2:], output[starts, 2:].argmax(axis=1)
        words = [
            {"word": word, "class": self.class_names[number], "probability": float(row[number])}
            for word, number, row in zip(self._words(output[:, 0], starts), likeliest.tolist(), of_words)
        ]
        if not is_bio(self.class_names):
            return {"words": words}
        found = [
            {"text": " ".join(each["word"] for each in words[start:end]), "kind": entity}
            for start, end, entity in spans([each["class"] for each in words])
        ]
        return {"words": words, "entities": found}

    def in_words(self, shown: Mapping[str, Any]) -> str:
        return " ".join(f"{each['word']}/{each['class']}" for each in shown["words"])

    def _words(self, ids: Array, starts: Array) -> list[str]:
        """Return the words that begin at these tokens; their places, where the tokenizer makes no text of tokens."""
        tokenizer = tokenizers.cached(self.description["tokenizer"])
        if tokenizer.decode is None:
            return [str(number) for number in range(len(starts))]
        pieces = [piece.astype(np.int64).tolist() for piece in np.split(ids, starts)[1:]]
        own = [[each for each in piece if each not in (-1, tokenizer.end_token)] for piece in pieces]
        return [tokenizer.decode(each).strip() for each in own]

    def _answer(self) -> tuple[int, ...]:
        return (self.window, len(self.class_names))
