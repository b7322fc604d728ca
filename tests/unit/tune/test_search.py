"""The loop of a search, as far as it starts no run."""

from __future__ import annotations

import math
from pathlib import Path

from mxtrain.config import Run
from mxtrain.launch.attempt import StopRequests
from mxtrain.tasks.task import Score
from mxtrain.tune import space as spaces
from mxtrain.tune import study as studies
from mxtrain.tune.search import Plan, search


def test_a_trial_that_was_under_way_is_taken_up_first(tmp_path: Path) -> None:
    """It has the flags of one that has ended, whose value it gets; no further one is begun."""
    (tmp_path / "space.yaml").write_text("lr: [0.1]\n")
    base = Run.of(train="t.rec", val="v.rec", out=str(tmp_path))
    space = spaces.read(tmp_path / "space.yaml", base)
    study = studies.open_study(tmp_path, {}, is_lower_better=True)
    draw = studies.drawing(space, "random", seed=0, at_once=1)
    ended, under_way = study.ask(), study.ask()
    draw(study, ended)
    study.tell(ended, 0.25)
    draw(study, under_way)
    assert [trial.number for trial in studies.unfinished(study)] == [1]

    trials: list[int] = []
    plan = Plan(tmp_path, base, space, Score("loss", is_lower_better=True), draw, 2, 1, math.inf, 64)
    search(plan, study, StopRequests(), lambda trial: trials.append(trial.number))
    assert trials == [1]
    assert [trial.value for trial in study.trials] == [0.25, 0.25]
    assert not (tmp_path / "trials").exists()
