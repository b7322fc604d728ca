"""Runs with --head-chunk: killed and resumed elsewhere, then judged, named and exported as a whole head is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mxtrain.export.__main__ import export
from mxtrain.predict import predict
from tests.support import runs
from tests.support.commands import Command
from tests.support.jobs.shapes_run import flags


def fitted(command: Command, line: list[str]) -> str:
    done = command("mxtrain.fit", *line)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_a_head_in_chunks_is_learnt_and_answers_as_a_whole(
    shapes: Path, tmp_path: Path, command: Command
) -> None:
    out = tmp_path / "chunks"
    line = [*flags(shapes, out), "--epochs", "3", "--head-chunk", "1"]
    fitted(command, line)
    last = runs.records(out, "eval")[-1]
    assert last["val_accuracy"] == 1
    judged = command("mxtrain.evaluate", out, "--json", "--metric", "auc")
    assert judged.returncode == 0, judged.stderr
    found = json.loads(judged.stdout)
    for name in ("val_loss", "val_accuracy", "val_top5_accuracy"):
        assert found[name] == pytest.approx(last[name], rel=1e-5, abs=1e-5), name
    assert len(predict(out, shapes / "val.rec")[0]["classes"]) == 2
    assert (
        export(out, to="symbol", out=tmp_path / "symbol", val=str(shapes / "val.rec")).differences.absolute
        < 1e-5
    )
    held = command("mxtrain.evaluate", out, "--hold", "layers")
    assert held.returncode == 2 and "has its head in chunks" in held.stderr

    other = command("mxtrain.fit", *line, "--head-chunk", "0", "--epochs", "4")
    assert other.returncode == 2 and "is another run's (--head-chunk 1 -> 0)" in other.stderr
    whole = [*flags(shapes, tmp_path / "whole"), "--max-steps", "1", "--pretrained", str(out)]
    assert "32 of 32 parameters taken" in fitted(command, whole)
    back = [*flags(shapes, tmp_path / "back"), "--max-steps", "1", "--head-chunk", "1", "--pretrained"]
    assert "34 of 34 parameters taken" in fitted(command, [*back, str(tmp_path / "whole")])


@pytest.mark.slow  # tests/engine/models/test_class_chunks.py has the devices, tests/cluster/training workers
@pytest.mark.parametrize("loss", ["cross_entropy", "arcface:scale=8,margin=0.3"])
def test_a_killed_run_on_other_devices_ends_as_the_straight_one(
    shapes: Path, tmp_path: Path, command: Command, loss: str
) -> None:
    straight, out = tmp_path / "straight", tmp_path / "run"
    line = ["--loss", loss, "--head-chunk", "1", "--checkpoint-steps", "4", "--micro-batch", "4"]
    fitted(command, [*flags(shapes, straight), *line])
    runs.kill_at(6, tmp_path / "killed.log", *flags(shapes, out), *line)
    fitted(command, [*flags(shapes, out), *line, "--devices", "cpu"])
    runs.assert_same_end(out, straight)
