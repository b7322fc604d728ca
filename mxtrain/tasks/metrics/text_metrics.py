"""Metrics of labels of texts and tokens: accuracy and F1 over classes, and F1 over entities of several words."""

from __future__ import annotations

from typing import Iterator, Sequence

import numpy as np

from mxtrain.cluster.worker_group import in_order
from mxtrain.data.fields import Array, Arrays
from mxtrain.tasks.task import Output, State

OUTSIDE, BEGIN, INSIDE = "O", "B-", "I-"


class Confusion:
    """Accuracy, and the mean of F1 over the classes that occur, as label or as answer; labels below 0 do not count."""

    names = ("accuracy", "macro_f1")

    def __init__(self, num_classes: int):
        self._num_classes = num_classes
        self.width = 3 * num_classes

    def state(self, output: Output, arrays: Arrays) -> State:
        label = arrays["label"]
        found, wanted = output.asnumpy().argmax(axis=-1)[label >= 0], label[label >= 0].astype(np.int64)
        kinds = (wanted[found == wanted], wanted, found)
        counts = [np.bincount(each, minlength=self._num_classes) for each in kinds]
        return np.concatenate(counts).astype(np.float64)

    def finish(self, states: Sequence[State]) -> dict[str, float]:
        hits, wanted, found = in_order(states).reshape(3, -1)
        both = wanted + found
        f1 = 2 * hits[both > 0] / both[both > 0]
        return {"accuracy": float(hits.sum() / wanted.sum()), "macro_f1": float(f1.mean())}


class Entities:
    """Precision, recall and F1 of entities, each of them right only in its kind and in all of its words.

    As in CoNLL's evaluation: an entity begins with B-KIND, or with I-KIND where none of this kind is under way.
    """

    width = 3
    names = ("entity_precision", "entity_recall", "entity_f1")

    def __init__(self, class_names: Sequence[str]):
        self._names = class_names

    def state(self, output: Output, arrays: Arrays) -> State:
        answers, counts = output.asnumpy().argmax(axis=-1), np.zeros(3)
        for answer, label in zip(answers, arrays["label"]):
            found, wanted = (set(self._spans(each[label >= 0])) for each in (answer, label))
            counts += (len(found & wanted), len(found), len(wanted))
        return counts

    def finish(self, states: Sequence[State]) -> dict[str, float]:
        right, found, wanted = in_order(states).tolist()
        return {
            "entity_precision": right / found if found else 0.0,
            "entity_recall": right / wanted if wanted else 0.0,
            "entity_f1": 2 * right / (found + wanted) if found + wanted else 0.0,
        }

    def _spans(self, classes: Array) -> Iterator[tuple[int, int, str]]:
        return spans([self._names[number] for number in classes.astype(np.int64).tolist()])


def is_bio(class_names: Sequence[str]) -> bool:
    """Return whether classes are those of entities: O, B-KIND and I-KIND."""
    return OUTSIDE in class_names and all(
        name == OUTSIDE or name.startswith((BEGIN, INSIDE)) for name in class_names
    )


def spans(names: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Yield the first word, the one behind the last, and the kind of each entity in the labels of a text's words."""
    start, entity = 0, ""
    for place, name in enumerate([*names, OUTSIDE]):
        own_entity = "" if name == OUTSIDE else name[len(BEGIN) :]
        if own_entity == entity and not name.startswith(BEGIN):
            continue
        if entity:
            yield start, place, entity
        start, entity = place, own_entity
