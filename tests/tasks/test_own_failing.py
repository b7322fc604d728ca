"""What fails in a task of the user's own is reported by its flag, wherever it is called."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from mxtrain.core.errors import BUG, USAGE
from tests.support.commands import Command
from tests.support.user_code import majority_data
from tests.tasks.cases import MAJORITY
from tests.tasks.given import NUM_TRAIN, NUM_VAL, Given

TASKS = "tests.support.user_code.failing_tasks"


def said(task: str, code: int, folder: Path, command: Command, flags: str = "") -> str:
    majority_data.write_sets(folder, NUM_TRAIN, NUM_VAL)
    flags = f"--max-steps 1 {flags}"
    case = dataclasses.replace(MAJORITY, flags=f"--task {TASKS}:{task}")
    return Given(case, folder, command).fit(folder / "run", flags, code=code).splitlines()[-1]


@pytest.mark.parametrize(
    ("task", "flags"),
    [
        ("Reading", "--loader processes"),
        ("Forwarding", ""),
        ("Measuring", ""),
        *(
            pytest.param(task, "", marks=pytest.mark.slow)
            for task in ("Describing", "Reading", "Preparing", "Building", "Judging")
        ),
    ],  # three of them hold it: before mxnet, in a step, in an evaluation
)
def test_what_fails_names_the_task(task: str, flags: str, tmp_path: Path, command: Command) -> None:
    expected = f"mxtrain.fit: --task {TASKS}:{task}: ZeroDivisionError: division by zero"
    assert said(task, BUG, tmp_path, command, flags) == expected


def test_a_net_that_does_not_fit_names_the_task(tmp_path: Path, command: Command) -> None:
    assert f"--task {TASKS}:WithoutParameters" in said("WithoutParameters", USAGE, tmp_path, command)
