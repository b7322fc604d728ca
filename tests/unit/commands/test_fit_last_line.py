"""What the last line of a run says of its evaluations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mxtrain import fit
from mxtrain.checkpoint.directory import Checkpoint
from mxtrain.tasks.classification import Classification


@pytest.mark.parametrize(
    ("accuracies", "end"),
    [
        ([0.5], "val accuracy 0.5000, val loss 0.3000 at step 10, the best"),
        ([0.5, 0.9, 0.7], "val accuracy 0.7000, val loss 0.3000 at step 30, best 0.9000 at step 20"),
        ([0.9, 0.9, 0.7], "val accuracy 0.7000, val loss 0.3000 at step 30, best 0.9000 at step 20"),
        ([0.9, 0.7, 0.9], "val accuracy 0.9000, val loss 0.3000 at step 30, the best"),
        # A number that is not finite is null in metrics.jsonl.
        ([None], "val accuracy not finite, val loss 0.3000 at step 10, none is finite"),
        ([0.5, None], "val accuracy not finite, val loss 0.3000 at step 20, best 0.5000 at step 10"),
    ],
)
def test_the_last_score_and_the_best(accuracies: list[float | None], end: str) -> None:
    evaluations = [
        {"step": 10 * number, "val_accuracy": accuracy, "val_loss": 0.3}
        for number, accuracy in enumerate(accuracies, start=1)
    ]
    assert fit.score_text(evaluations, Classification.score) == end


@pytest.mark.parametrize(("overfit", "judged"), [(0, "/data/val.rec"), (2, "the samples of --overfit")])
def test_a_run_with_nothing_left_names_what_it_was_judged_on(
    tmp_path: Path, overfit: int, judged: str
) -> None:
    found = tmp_path / "checkpoints" / "step-00000010"
    found.mkdir(parents=True)
    evaluation = {"kind": "eval", "step": 10, "val_accuracy": 0.5, "val_loss": 0.3}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(evaluation) + '\n{"kind": "train", "st')
    state = {"step": 10, "config": {"val": "/data/val.rec", "overfit": overfit}}
    assert f", the best, on {judged}; {found}" in fit.nothing_done_line(
        Checkpoint(found, state), Classification.score
    )
