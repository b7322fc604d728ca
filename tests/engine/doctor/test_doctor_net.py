"""doctor --only gradients,overfit: wrong backward passes are found and named, and right nets are left alone."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import ROOT
from tests.tasks import cases
from tests.tasks.data import stripes

OWN = "tests.support.nets.faulty_nets"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("stripes")
    stripes.write(made, 48, 16)
    return made


def found_in(train: Path, only: str, *flags: str) -> Any:
    line = [sys.executable, "-m", "mxtrain.doctor", "--train", str(train), "--only", only, "--json", *flags]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def pictures(folder: Path, only: str, *flags: str) -> Any:
    small = ("--image-size", "16", "--val-resize", "16", "--batch-size", "16", "--augment", "none")
    return found_in(folder / "train.rec", only, *small, "--optimizer", "adam", "--lr", "0.02", *flags)


def test_a_wrong_backward_pass_is_named_and_one_batch_is_learnt_all_the_same(folder: Path) -> None:
    found = pictures(folder, "gradients,overfit", "--model", f"{OWN}:wrong_square")
    assert found["gradients"]["culprits"] == ["5 (Squared)"]
    assert set(found["gradients"]["wrong"]) == {"0.weight", "1.gamma", "1.beta", "4.weight", "4.bias"}
    assert all(0.2 < error < 0.3 for error in found["gradients"]["wrong"].values()), "a quarter is missing"
    assert found["overfit"]["has_learnt"] and not found["overfit"]["no_gradient"]


@pytest.mark.slow  # the test above names a block; tests/unit/doctor/net/test_gradient_fault.py has all kinds of faults
@pytest.mark.parametrize(
    ("flags", "culprits"),
    [
        (("--model", f"{OWN}:right"), []),
        (("--model", f"{OWN}:wrong_shift"), ["5 (Shifted), for its shift"]),
        (("--model", f"{OWN}:InItself"), ["what the net does with the output of first (Dense)"]),
        (("--model", "small_cnn", "--loss", f"{OWN}:wrong_loss"), ["the loss"]),
    ],
)
def test_faults_of_all_kinds_are_named(folder: Path, flags: tuple[str, ...], culprits: list[str]) -> None:
    assert pictures(folder, "gradients", *flags)["gradients"]["culprits"] == culprits


@pytest.mark.slow  # test_a_wrong_backward_pass_is_named_and_one_batch_is_learnt_all_the_same has the other side
def test_layers_without_a_gradient_and_a_batch_that_is_not_learnt_are_told(folder: Path) -> None:
    found = pictures(folder, "gradients,overfit", "--model", f"{OWN}:Detached")
    assert found["gradients"]["no_gradient"] == ["first.weight", "first.bias"]
    assert found["gradients"]["culprits"] == ["what the net does with the output of first.act (Activation)"]
    assert found["overfit"]["no_gradient"] == ["first.weight", "first.bias"]
    found = pictures(folder, "overfit", "--model", "small_cnn", "--loss", f"{OWN}:wrong_loss")
    assert not found["overfit"]["has_learnt"] and len(found["overfit"]["tried"]) == 3


@pytest.mark.slow  # of pictures' classes above
@pytest.mark.parametrize("case", cases.ALL, ids=lambda case: case.name)
def test_nets_of_all_tasks_have_right_gradients(case: cases.Case, tmp_path: Path) -> None:
    case.write(tmp_path, 64, 16)
    flags = shlex.split(case.flags.format(folder=tmp_path))
    found = found_in(tmp_path / "train.rec", "gradients", *flags)["gradients"]
    assert found["examined"] > 2 and found["unclear"] == 0
    assert found["wrong"] == {} and found["no_gradient"] == []
