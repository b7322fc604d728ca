"""Run folders written by an older mxtrain resume, evaluate and predict as that one did (tests/golden/runs_before)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import runs
from tests.support.amp import needs_bf16
from tests.support.breadth import slow_cases
from tests.support.commands import ROOT
from tests.support.comparing import assert_close
from tests.support.processes import warm_start

BEFORE = ROOT / "tests" / "golden" / "runs_before"
RUNS = (
    *("adam_loss_scale", pytest.param("adam_bf16", marks=needs_bf16), "dist_async"),
    *slow_cases("sgd_ema", "dist_sync"),
)
# Where kernels or wheels are not those that wrote the folders, sums are rounded otherwise: 1e-5. A bias before a norm
# has no gradient but such rounding, of which Adam makes whole steps. A run in bf16 goes on with other operators.
ROUNDING, OTHER_OPERATORS = {"adam_loss_scale": 1e-3, "adam_bf16": 1e-2}, ("adam_bf16",)
# Their gradients would be added exactly, did they begin today (docs/adr/0020). adam_bf16 has none to add, the others'
# flags do not go with it.
WOULD_BE_EXACT = ("sgd_ema", "adam_loss_scale")


def run(module: str, *arguments: object) -> str:
    """Return what `python -m module` prints in the folder of the net."""
    return ended(module, *arguments).stdout


def ended(module: str, *arguments: object) -> Any:
    done = warm_start.run(module, list(map(str, arguments)), BEFORE, timeout=100)
    assert done.returncode == 0, done.stderr
    return done


def environment_of(run: Path) -> dict[str, Any]:
    """The part of a run's environment.json that decides about the last bits."""
    environment = json.loads((run / "environment.json").read_text())
    return {name: environment[name] for name in ("kernels", "wheels")}


def state_of(path: Path) -> dict[str, Any]:
    """The values of a state.json, without those that name a place, a version or the CPU's kernels."""
    state: dict[str, Any] = json.loads(path.read_text())
    state.setdefault("description", {"class_names": state.pop("class_names", None)})
    younger = (
        "is_lower_better",
        "scored_by",
        "kernels",
        "threads",
        "amp_table",
        "narrow_share",
        "units_rule",
        "micro_batch",
    )  # than these runs
    for name in younger:
        state.pop(name, None)
    for name in ("config", "modules", "versions", "job"):
        assert name in state
        del state[name]
    return state


def arrays_of(path: Path) -> dict[str, np.ndarray]:
    from mxtrain.runtime import mx

    return {name: array.asnumpy() for name, array in mx.nd.load(str(path)).items()}


@pytest.fixture
def killed(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A copy of one of the folders, with the data it was trained on beside it."""
    name = request.param
    shutil.copytree(BEFORE / "data", tmp_path / "data")
    return Path(shutil.copytree(BEFORE / "killed" / name, tmp_path / name))


@pytest.mark.parametrize("killed", RUNS, indirect=True)
def test_a_run_folder_of_before_resumes_to_the_same_end(killed: Path) -> None:
    end, data = BEFORE / "ended" / killed.name, killed.parent / "data"
    same_bits = environment_of(killed)
    done = ended(
        *("mxtrain.fit", "--config", killed / "config.yaml", "--out", killed),
        *("--train", data / "train.rec", "--val", data / "val.rec"),
    )
    has_other_table = "chose what runs in bfloat16 by MXNet's lists" in done.stderr
    assert has_other_table == (killed.name in OTHER_OPERATORS)
    assert ("was begun with --sums fast" in done.stderr) == (killed.name in WOULD_BE_EXACT)
    assert "\nsums: fast\n" in (killed / "config.yaml").read_text()
    is_same = environment_of(killed) == same_bits and killed.name not in OTHER_OPERATORS
    tolerance = 0.0 if is_same else ROUNDING.get(killed.name, 1e-5)
    expected = [json.loads(line) for line in (end / "metrics.jsonl").read_text().splitlines()]
    timed = ("seconds", "images_per_second")
    expected = [{name: value for name, value in each.items() if name not in timed} for each in expected]
    of_before = [each for each in runs.curve(killed) if each["kind"] in ("train", "eval")]
    for each in of_before:
        for younger in ("val_ece", "sampled"):
            each.pop(younger, None)
    assert_close(of_before, expected, tolerance, "metrics")
    assert_close(
        state_of(runs.newest(killed) / "state.json"), state_of(end / "state.json"), tolerance, "state"
    )
    files = {path.name for path in end.glob("*.params")}
    assert files == {path.name for path in runs.newest(killed).glob("*.params")}
    for name in files:
        assert_close(arrays_of(runs.newest(killed) / name), arrays_of(end / name), tolerance, name)


@pytest.mark.parametrize("killed", RUNS, indirect=True)
def test_a_run_folder_of_before_evaluates_and_predicts(killed: Path) -> None:
    tolerance = ROUNDING.get(killed.name, 1e-5)
    val = killed.parent / "data" / "val.rec"
    scores = runs.scores_of(json.loads(run("mxtrain.evaluate", "--run", killed, "--val", val, "--json")))
    prediction = json.loads(run("mxtrain.predict", "--run", killed, "--json", BEFORE / "picture.png"))
    del scores["val_ece"]  # which those runs did not tell
    evaluation = next(each for each in runs.curve(killed) if (each["kind"], each["step"]) == ("eval", 6))
    assert_close(scores, {name: evaluation[name] for name in scores}, tolerance, "scores")
    predictions = json.loads((BEFORE / "predictions.json").read_text())
    assert_close(prediction["classes"], predictions[killed.name], tolerance, "classes")
