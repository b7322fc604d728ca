"""--overfit learns a few batches by heart."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.digits import write_digits
from tests.support.commands import Command
from tests.support.runs import records


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory, command: Command) -> Path:
    pytest.importorskip("sklearn")
    folder = tmp_path_factory.mktemp("digits")
    write_digits(folder / "images")
    assert command("tools.im2rec_wrapper", "pack", folder / "images", folder / "digits.rec").returncode == 0
    return folder / "digits.rec"


@pytest.mark.slow  # the demo learns them all
def test_a_few_batches_of_digits_are_learnt_by_heart(digits: Path, tmp_path: Path, command: Command) -> None:
    recipe = (
        "--config examples/digits.yaml --overfit 2 --batch-size 16 --max-steps 60 --log none --val unread.rec"
    )
    done = command("mxtrain.fit", *recipe.split(), "--train", digits, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    trained, judged = (
        [record for record in records(tmp_path / "run") if record["kind"] == kind]
        for kind in ("train", "eval")
    )
    assert judged[-1]["num_samples"] == 32 and judged[-1]["val_accuracy"] == 1.0
    assert trained[0]["loss"] > 2 > 0.5 > trained[-1]["loss"]
