"""Evaluations between epochs, metrics by name and the user's, and another score: the same in every run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mxtrain.core.errors import USAGE
from tests.support.commands import Command
from tests.support.comparing import assert_close
from tests.support.nets.mobile_net import QUICK_MOBILE, SOME_NORMS
from tests.support.runs import assert_same_end, curve, newest, records, scores_of
from tests.tasks.cases import CLASSIFICATION
from tests.tasks.given import NUM_TRAIN, NUM_VAL, Given

METRICS = "auc,macro_f1,tests.support.user_code.user_metrics:several"
FLAGS = f"--evaluate-steps 4 --metric {METRICS} --score worst"


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory, command: Command) -> Given:
    folder = tmp_path_factory.mktemp("pictures")
    CLASSIFICATION.write(folder, NUM_TRAIN, NUM_VAL)
    return Given(CLASSIFICATION, folder, command)


@pytest.fixture(scope="module")
def judged(pictures: Given, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("judged")
    pictures.fit(out, FLAGS)
    return out


def evaluations(out: Path) -> list[dict[str, Any]]:
    return [each for each in records(out) if each["kind"] == "eval"]


def test_evaluations_come_between_epochs_and_move_no_bit(
    judged: Path, pictures: Given, tmp_path: Path
) -> None:
    assert [each["step"] for each in evaluations(judged)] == [4, 6, 8, 12, 16, 18]
    pictures.fit(tmp_path)
    trained = [[each for each in curve(out) if each["kind"] == "train"] for out in (judged, tmp_path)]
    assert trained[0] == trained[1]
    assert (newest(judged) / "weights.params").read_bytes() == (
        newest(tmp_path) / "weights.params"
    ).read_bytes()


def test_the_score_decides_which_checkpoint_is_best(judged: Path, pictures: Given) -> None:
    told = evaluations(judged)
    assert {"val_auc", "val_macro_f1", "val_best", "val_worst", "val_accuracy"} < set(told[0])
    state = json.loads((newest(judged) / "state.json").read_text())
    lowest = min(each["val_worst"] for each in told)  # the attribute of the function says so
    assert state["best"][0] == lowest and state["is_lower_better"] and state["scored_by"] == "worst"
    best = [each for each in told if each["val_worst"] == lowest][-1]
    again = pictures.command("mxtrain.evaluate", "--run", judged, "--json")
    assert again.returncode == 0, again.stderr
    assert_close(scores_of(json.loads(again.stdout)), scores_of(best), 1e-5)


def test_a_trained_net_is_judged_by_other_metrics(judged: Path, pictures: Given) -> None:
    asked = ["--json", "--metric", "recall,tests.support.user_code.user_metrics:regret"]
    told = pictures.command("mxtrain.evaluate", "--run", judged, *asked)
    assert told.returncode == 0, told.stderr
    assert {"val_recall", "val_regret", "val_accuracy"} < set(json.loads(told.stdout))
    assert "val_macro_f1" not in json.loads(told.stdout)


def test_a_killed_run_goes_on_to_the_bit(judged: Path, pictures: Given, tmp_path: Path) -> None:
    pictures.kill_at(9, tmp_path, FLAGS)
    assert newest(tmp_path).name in ("step-00000006", "step-00000008")  # which may not be written yet
    pictures.fit(tmp_path, FLAGS)
    assert_same_end(tmp_path, judged)


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    "count", [2, pytest.param(4, marks=pytest.mark.slow)]
)  # two workers hold it in small
def test_workers_judge_to_the_bit(count: int, judged: Path, pictures: Given, tmp_path: Path) -> None:
    pictures.fit(tmp_path, f"{FLAGS} --kvstore dist_sync --start-timeout 60 --num-workers {count}")
    assert_same_end(tmp_path, judged)


def test_a_run_is_not_resumed_by_another_score(judged: Path, pictures: Given) -> None:
    said = pictures.fit(judged, f"--metric {METRICS} --score auc --epochs 4", code=USAGE)
    assert "is another run's (--score worst -> auc)" in said


def test_depthwise_layers_and_frozen_norms_are_judged_alike_by_another_process(
    pictures: Given, tmp_path: Path
) -> None:
    """Whose net has no frozen norms, and is here a segment at a time; as a whole it folds norms into convolutions."""
    pictures.fit(tmp_path, f"--model {QUICK_MOBILE} --freeze {SOME_NORMS} --remat --evaluate-steps 4")
    for way, tolerance in (("all", 1e-5), ("layers", 0)):
        asked = ["--checkpoint", "latest", "--hold", way, "--json"]
        told = pictures.command("mxtrain.evaluate", "--run", tmp_path, *asked)
        assert told.returncode == 0, told.stderr
        assert_close(scores_of(json.loads(told.stdout)), scores_of(evaluations(tmp_path)[-1]), tolerance)


@pytest.mark.slow  # tests/unit/tasks/metrics/test_metric_selection.py has the name
def test_the_tasks_own_score_may_be_named(pictures: Given, tmp_path: Path) -> None:
    pictures.fit(tmp_path, "--epochs 1")
    pictures.fit(tmp_path, "--epochs 2 --score accuracy --evaluate-steps 5")
    assert [each["step"] for each in evaluations(tmp_path)] == [6, 10, 12]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--score auc", "--score auc: no number of this run's evaluations"),
        ("--metric mae", "--metric mae: does not fit --task classification"),
        (
            "--metric tests.support.user_code.user_metrics:several --score nothing",
            "--score nothing: the evaluation gave loss,",
        ),
    ],
)
def test_what_cannot_decide_is_refused(flags: str, words: str, pictures: Given, tmp_path: Path) -> None:
    assert words in pictures.fit(tmp_path, flags, code=USAGE)
