"""The place of a class among all, without sorting them."""

from __future__ import annotations

import numpy as np
import pytest

from mxtrain.tasks.metrics.metrics import NOWHERE, ranks_of_classes


@pytest.mark.parametrize("num_classes", [1, 2, 5, 40])
def test_places_are_those_of_a_stable_sort(num_classes: int) -> None:
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 10, (300, num_classes)).astype(np.float32)  # with ties
    scores[::7] = rng.random((43, num_classes))
    labels = rng.integers(0, num_classes, 300).astype(np.float32)
    order = np.argsort(-scores, axis=1, kind="stable")
    assert ranks_of_classes(scores, labels).tolist() == (order == labels[:, None]).argmax(axis=1).tolist()


def test_what_is_no_class_or_has_no_score_is_nowhere() -> None:
    scores = np.array([[0, 1], [0, 1], [0, 1], [np.nan, 1], [np.nan, 1], [0, np.inf]], np.float32)
    labels = np.array([-1, 2, 0.5, 0, 1, 1], np.float32)
    assert ranks_of_classes(scores, labels).tolist() == [NOWHERE, NOWHERE, NOWHERE, NOWHERE, 0, 0]
