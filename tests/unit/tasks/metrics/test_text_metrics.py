"""Accuracy, F1 over classes and over entities, by hand and against other sums."""

from __future__ import annotations

import numpy as np
import pytest

from mxtrain.tasks.metrics.text_metrics import Confusion, Entities, is_bio, spans

NAMES = ["B-LOC", "B-PER", "I-LOC", "I-PER", "O"]


class Output:
    def __init__(self, rows):
        self.rows = np.eye(len(NAMES))[np.array(rows)]

    def asnumpy(self):
        return self.rows


def numbers(words):
    return [NAMES.index(word) for word in words.split()]


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        ("O B-PER I-PER O B-LOC", [(1, 3, "PER"), (4, 5, "LOC")]),
        ("B-PER B-PER I-PER", [(0, 1, "PER"), (1, 3, "PER")]),
        ("I-PER I-LOC I-LOC O I-PER", [(0, 1, "PER"), (1, 3, "LOC"), (4, 5, "PER")]),
        ("O O", []),
        ("", []),
    ],
)
def test_entities_in_labels(labels, found):
    assert list(spans(labels.split())) == found


def test_an_entity_is_right_with_all_of_its_words():
    wanted = [numbers("B-PER I-PER O B-LOC"), [*numbers("O B-LOC"), -1, 0]]
    answer = [numbers("B-PER O O B-LOC"), numbers("O B-LOC B-PER B-LOC")]
    metric = Entities(NAMES)
    states = [metric.state(Output([one]), {"label": np.array([two])}) for one, two in zip(answer, wanted)]
    assert metric.finish(states) == {"entity_precision": 3 / 4, "entity_recall": 3 / 4, "entity_f1": 3 / 4}
    nothing = metric.state(Output([numbers("O O")]), {"label": np.array([numbers("O O")])})
    assert metric.finish([nothing]) == {"entity_precision": 0, "entity_recall": 0, "entity_f1": 0}


def test_f1_over_classes_is_scikit_learns():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    label, answer = rng.integers(-1, 4, (6, 50)), rng.integers(0, 4, (6, 50))
    metric = Confusion(len(NAMES))
    found = metric.finish(
        [metric.state(Output(one), {"label": two.astype(np.float32)}) for one, two in zip(answer, label)]
    )
    known = label >= 0
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(label[known], answer[known]))
    assert found["macro_f1"] == pytest.approx(metrics.f1_score(label[known], answer[known], average="macro"))


def test_classes_of_entities_are_known_by_their_names():
    assert is_bio(NAMES) and not is_bio(["O", "verb"]) and not is_bio(["B-PER"])
