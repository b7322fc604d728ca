"""--remat computes the same losses with mixed precision, to the bit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.amp import BF16, needs_bf16
from tests.support.commands import Command
from tests.support.jobs.shapes_run import flags
from tests.support.runs import records


@needs_bf16
@pytest.mark.slow  # in small: tests/engine/models/test_remat.py, what runs in bfloat16
def test_recomputing_is_the_same_in_mixed_precision(shapes: Path, tmp_path: Path, command: Command) -> None:
    wanted = [*BF16.split(), "--model", "small_resnet", "--epochs", "1"]
    for name, more in (("plain", []), ("again", ["--remat"])):
        done = command("mxtrain.fit", *flags(shapes, tmp_path / name), *wanted, *more)
        assert done.returncode == 0, done.stderr
    plain, again = (
        [record["loss"] for record in records(tmp_path / name) if record["kind"] == "train"]
        for name in ("plain", "again")
    )
    assert again == plain
    judged = command("mxtrain.evaluate", "--run", tmp_path / "again", "--json")
    assert json.loads(judged.stdout)["val_loss"] == records(tmp_path / "again")[-1]["val_loss"]
