"""What a search draws, ends early and keeps, on real optuna studies in SQLite; without any runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mxtrain.config import Run
from mxtrain.core.errors import DataError, UsageError
from mxtrain.tune import space as spaces
from mxtrain.tune import study as studies

SPACE = """
lr: {low: 1e-4, high: 1, log: true}
epochs: {low: 1, high: 9}
optimizer:
  sgd: {momentum: {low: 0, high: 0.9}}
  adamw:
"""


@pytest.fixture
def space(tmp_path: Path) -> spaces.Space:
    (tmp_path / "space.yaml").write_text(SPACE)
    return spaces.read(tmp_path / "space.yaml", Run.of(train="t.rec", val="v.rec"))


def searched(
    folder: Path, space: spaces.Space, num_trials: int, dies_within: int | None = None, pruner: str = "none"
) -> list[Any]:
    """Trials of a search that always finds the same for the same; one that dies goes on by another call."""
    folder.mkdir(exist_ok=True)
    study = studies.open_study(folder, {}, is_lower_better=True)
    study.pruner = studies.pruner_of(pruner, 2)
    draw = studies.drawing(space, "tpe", seed=3, at_once=1)
    left_over = [studies.optuna.trial.Trial(study, each._trial_id) for each in studies.unfinished(study)]
    while left_over or len(study.trials) < num_trials:
        trial = left_over.pop() if left_over else study.ask()
        if trial.number == dies_within:
            studies.drawing(space[:2], "tpe", seed=3, at_once=1)(study, trial)  # and then no more
            return []
        flags = draw(study, trial)
        trial.report(flags["lr"], 1)
        if trial.should_prune():
            study.tell(trial, state=studies.TrialState.PRUNED)
        else:
            study.tell(trial, flags["lr"] + flags["epochs"] / 100)
    return [(studies.flags_of(each, space), each.state.name, each.value) for each in study.trials]


# Hyperband's groups are drawn in another way; what holds for the median is the same code.
@pytest.mark.parametrize("pruner", ["median", pytest.param("hyperband", marks=pytest.mark.slow)])
def test_a_search_that_dies_between_two_draws_goes_on_with_the_same_trials(
    tmp_path: Path, space: spaces.Space, pruner: str
) -> None:
    whole = searched(tmp_path / "whole", space, 11, pruner=pruner)
    assert not searched(tmp_path / "killed", space, 11, dies_within=10, pruner=pruner)
    assert searched(tmp_path / "killed", space, 11, pruner=pruner) == whole
    assert {state for _, state, _ in whole} == {"COMPLETE", "PRUNED"}
    assert len({str(flags) for flags, _, _ in whole}) == 11


def test_another_search_is_refused_with_the_difference_once_a_trial_has_ended(tmp_path: Path) -> None:
    before, now = ({"seed": 0, "lr": [{"choices": (1, 2)}], "base": each} for each in ("a", "b"))
    studies.open_study(tmp_path, before, is_lower_better=True).ask()
    study = studies.open_study(tmp_path, now, is_lower_better=False)  # nothing is lost
    assert not study.trials and study.direction.name == "MAXIMIZE"
    study.tell(study.ask(), 1.0)
    assert len(studies.open_study(tmp_path, now, is_lower_better=False).trials) == 1
    with pytest.raises(UsageError, match=r"holds another search: base was 'b' and is 'a'; give"):
        studies.open_study(tmp_path, before, is_lower_better=False)


@pytest.mark.parametrize("damage", [b"no database at all" * 99, None], ids=["another", "zeroed"])
def test_a_damaged_record_is_refused_by_its_name(tmp_path: Path, damage: bytes | None) -> None:
    path = tmp_path / studies.FILE
    study = studies.open_study(tmp_path, {}, is_lower_better=True)
    study.tell(study.ask(), 1.0)
    whole = path.read_bytes()
    path.write_bytes(damage or whole[:5000] + bytes(90_000) + whole[95_000:])
    with pytest.raises(DataError, match=r"study\.db: is damaged, or no record of a search .* move it away"):
        studies.open_study(tmp_path, {}, is_lower_better=True)


def test_the_folder_may_have_any_name(tmp_path: Path) -> None:
    folder = tmp_path / "a ?mode=ro&b#%20"
    folder.mkdir()
    studies.open_study(folder, {}, is_lower_better=True)
    assert [path.name for path in folder.iterdir()] == [studies.FILE]
