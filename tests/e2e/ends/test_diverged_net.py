"""A net that has diverged, all of whose weights are NaN, is evaluated and asked: nothing crashes, and JSON is JSON."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from mxtrain.checkpoint import directory
from mxtrain.checkpoint.directory import Snapshot
from tests.support.commands import Command
from tests.support.runs import newest


@pytest.fixture(scope="module")
def diverged(trained_digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from mxtrain.runtime import mx

    run = tmp_path_factory.mktemp("diverged") / "run"
    shutil.copytree(trained_digits, run)
    checkpoint = newest(run)
    arrays = mx.nd.load(str(checkpoint / "weights.params"))
    lost = {name: np.full(array.shape, np.nan, np.float32) for name, array in arrays.items()}
    state = directory.read_state(checkpoint)
    directory.write(checkpoint.parent, Snapshot(state["step"], {"weights.params": lost}, state))
    return run


def strictly(text: str) -> Any:
    """Return what a line of JSON says; Python's reader takes NaN too, which is none."""

    def refuse(word: str) -> NoReturn:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.slow  # test_it_is_asked has the net
def test_it_is_evaluated(diverged: Path, command: Command) -> None:
    asked = ["mxtrain.evaluate", diverged, "--checkpoint", "latest"]
    found = strictly(command(*asked, "--json").stdout)
    assert found["val_loss"] is None and found["val_ece"] is None and 0 <= found["val_accuracy"] < 0.2
    done = command(*asked)
    assert done.returncode == 0, done.stderr
    assert "val_loss nan" in done.stdout and "its loss is not finite" in done.stdout


def test_it_is_asked(diverged: Path, digits: Path, command: Command) -> None:
    asked = ["mxtrain.predict", diverged, "--checkpoint", "latest", "--top", 2]
    twos = digits / "images" / "two"
    done = command(*asked, twos, "--json")
    assert done.returncode == 0 and done.stderr.count("numbers that are not finite") == 1, done.stderr
    answers = [strictly(line) for line in done.stdout.splitlines()]
    assert len(answers) == len([*twos.iterdir()])
    assert {each["probability"] for answer in answers for each in answer["classes"]} == {None}
    done = command(*asked, twos, "--format", "csv")
    assert done.stdout.splitlines()[1].split(",")[2::2] == ["nan", "nan"], done.stderr
    done = command(*asked, "--mistakes", 2, "--json")
    assert [strictly(line)["loss"] for line in done.stdout.splitlines()] == [None, None], done.stderr
