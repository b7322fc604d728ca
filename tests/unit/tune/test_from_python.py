"""`tune` in Python: what it refuses before anything starts. tests/e2e/results/test_tune.py searches by it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from mxtrain.config import Run
from mxtrain.config.program_objects import name_of
from mxtrain.core.errors import UsageError
from mxtrain.tune import tune


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"space": {"lrr": [1]}}, "space:1: unknown flag 'lrr'; did you mean 'lr'?"),
        ({"space": {"lr": {"low": 2, "high": 1}}}, "space:1: lr: low 2.0 is above high 1.0"),
        (
            {"space": {"lr": [object()]}},
            "space: has something else than text, numbers, lists and dicts in it",
        ),
        ({"sampler": "best"}, "sampler=best: give one of tpe, grid, random"),
        ({"trials": 0}, "trials=0: give 1 or more"),
        ({"jobs": 0}, "jobs=0: give 1 or more"),
        ({"trials": 3}, "--trials 3: --space has no more than 2 points"),
        ({"model": name_of(object())}, "model: is an object, which no other process has"),
        ({"metric": f"auc,{name_of(object())}"}, "metric: is an object, which no other process has"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, given: dict[str, Any], message: str) -> None:
    names = {name: given.pop(name) for name in ("model", "metric") if name in given}
    run = Run.of(**{"train": "t.rec", "val": "v.rec", "out": tmp_path / "out", "model": "small_cnn", **names})
    with pytest.raises(UsageError, match=re.escape(message)):
        tune(run, given.pop("space", {"lr": [0.1, 0.2]}), **given)
    assert not (tmp_path / "out").exists()
