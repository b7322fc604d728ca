"""Every task learns what a linear model cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.runs import records
from tests.tasks.given import Given


@pytest.mark.slow  # what is learnt in small is in each task's own tests
@pytest.mark.timeout(300)
def test_it_learns_more_than_a_linear_model(given: Given, tmp_path: Path) -> None:
    case, sets = given.case, ["--train", tmp_path / "train.rec", "--val", tmp_path / "val.rec"]
    case.write(tmp_path, *case.num_learnt)
    flags = [*case.flags.split(), *case.learn.split(), "--threads", "1", "--log", "none"]
    done = given.command("mxtrain.fit", *sets, *flags, "--out", tmp_path / "run", timeout=250)
    assert done.returncode == 0, done.stderr
    *_, last = [each for each in records(tmp_path / "run") if each["kind"] == "eval"]
    assert case.bar.is_reached(last[case.bar.name]), last
    linear = case.linear(tmp_path)
    assert not case.bar.is_reached(linear), linear
