"""--early-stop ends a run at the same step with the same weights, whether it was stopped before or not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.commands import Command
from tests.support.jobs.shapes_run import curve, flags
from tests.support.runs import records

CALM = ["--schedule", "constant", "--lr", "0.003", "--epochs", "30", "--early-stop", "2"]


@pytest.mark.slow  # tests/unit/optim/test_early_stop.py has the rule
def test_an_early_end_is_the_same_after_a_stop(shapes: Path, tmp_path: Path, command: Command) -> None:
    done = command("mxtrain.fit", *flags(shapes, tmp_path / "whole"), *CALM)
    assert done.returncode == 0, done.stderr
    assert "--early-stop: no better score than" in done.stderr
    scores = [record["val_accuracy"] for record in records(tmp_path / "whole") if record["kind"] == "eval"]
    assert 3 <= len(scores) < 30
    assert scores.index(max(scores)) == len(scores) - 3, "two evaluations after the best it ended"
    assert last_line(scores, records(tmp_path / "whole")[-1]["val_loss"]) in done.stdout
    judged = command("mxtrain.evaluate", "--run", tmp_path / "whole", "--json")
    assert json.loads(judged.stdout)["val_accuracy"] == max(scores)

    part = [*flags(shapes, tmp_path / "parts"), *CALM]
    steps = 4 * (len(scores) - 1)  # one evaluation before the end
    assert command("mxtrain.fit", *part, "--max-steps", steps).returncode == 0
    assert command("mxtrain.fit", *part).returncode == 0
    assert curve(tmp_path / "parts") == curve(tmp_path / "whole")
    assert newest_weights(tmp_path / "parts") == newest_weights(tmp_path / "whole")

    again = command("mxtrain.fit", *part)
    assert again.returncode == 0 and "--early-stop" in again.stderr
    assert curve(tmp_path / "parts") == curve(tmp_path / "whole"), "there was nothing left to do"


def last_line(scores: list[float], loss: float) -> str:
    """How the last line begins, with four steps an epoch."""
    best = max(place for place, score in enumerate(scores) if score == max(scores))
    is_best = (
        "the best" if scores[best] == scores[-1] else f"best {scores[best]:.4f} at step {4 * (best + 1)}"
    )
    return f"done: val accuracy {scores[-1]:.4f}, val loss {loss:.4f} at step {4 * len(scores)}, {is_best}; "


def newest_weights(out: Path) -> bytes:
    return (sorted((out / "checkpoints").iterdir())[-1] / "weights.params").read_bytes()
