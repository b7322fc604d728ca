"""What the last line of a run says of its evaluations."""

from __future__ import annotations

import pytest

from mxtrain import fit


@pytest.mark.parametrize(
    ("accuracies", "end"),
    [
        ([0.5], "val accuracy 0.5000, val loss 0.3000 at step 10, the best"),
        ([0.5, 0.9, 0.7], "val accuracy 0.7000, val loss 0.3000 at step 30, best 0.9000 at step 20"),
        ([0.9, 0.9, 0.7], "val accuracy 0.7000, val loss 0.3000 at step 30, best 0.9000 at step 20"),
        ([0.9, 0.7, 0.9], "val accuracy 0.9000, val loss 0.3000 at step 30, the best"),
    ],
)
def test_the_last_score_and_the_best(accuracies: list[float], end: str) -> None:
    evaluations = [
        {"step": 10 * number, "val_accuracy": accuracy, "val_loss": 0.3}
        for number, accuracy in enumerate(accuracies, start=1)
    ]
    assert fit.scores(evaluations) == end
