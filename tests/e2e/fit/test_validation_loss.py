"""val_loss is the loss that is trained, against the labels as they are; two runs whose weights stay compare it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import Command
from tests.support.jobs.shapes_run import flags
from tests.support.runs import records

STILL = ["--lr", "1e-12", "--weight-decay", "0", "--max-steps", "1", "--augment", "none"]


def doubled(output: Any, label: Any) -> Any:
    from mxtrain.models import losses

    return 2 * losses.cross_entropy(output, label)


def test_of_a_loss_of_ones_own_and_without_smoothing(shapes: Path, tmp_path: Path, command: Command) -> None:
    found = {}
    for name, more in (
        ("plain", []),
        ("smoothed", ["--label-smoothing", "0.5"]),
        ("doubled", ["--loss", f"{__name__}:doubled"]),
    ):
        done = command("mxtrain.fit", *flags(shapes, tmp_path / name), *STILL, *more)
        assert done.returncode == 0, done.stderr
        found[name] = records(tmp_path / name)
    trained, judged = ({name: found[name][at] for name in found} for at in (0, 1))
    assert trained["smoothed"]["loss"] != pytest.approx(trained["plain"]["loss"], rel=1e-3)
    assert judged["smoothed"]["val_loss"] == pytest.approx(judged["plain"]["val_loss"], rel=1e-5)
    assert judged["doubled"]["val_loss"] == pytest.approx(2 * judged["plain"]["val_loss"], rel=1e-5)
    again = command("mxtrain.evaluate", "--run", tmp_path / "doubled", "--json")
    assert json.loads(again.stdout)["val_loss"] == pytest.approx(judged["doubled"]["val_loss"], rel=1e-5)
