"""A run of two workers with kills in the middle is one curve in every sink, with the restarts marked."""

from __future__ import annotations

import csv
import os
import signal
from pathlib import Path

import pytest

from tests.support.jobs.cluster_run import CLUSTER, flags, losses
from tests.support.jobs.sinks import tensorboard, wandb_files, wandb_rows
from tests.support.process_tree import roles
from tests.support.runs import has_step, records, started, wait_until


# tests/unit/report asks for the same of each sink, without training.
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_kills_in_the_middle(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("tensorboard", "tensorboardX", "wandb"):
        pytest.importorskip(package)
    monkeypatch.setenv("WANDB_MODE", "offline")
    more = ["--checkpoint-steps", "5", "--log", "console,tensorboard,wandb,csv"]
    with started(*flags(digits, tmp_path, *CLUSTER, *more)) as run:
        for step, role in ((13, "worker-0"), (28, "worker-1")):
            wait_until(lambda step=step: has_step(tmp_path, step), run)  # type: ignore[misc]
            os.kill(roles(run.pid)[role], signal.SIGKILL)
        _, said = run.communicate(timeout=200)
    assert run.returncode == 0, said
    curve = losses(tmp_path)  # which asks for each step once
    steps = list(range(1, len(curve) + 1))

    events = records(tmp_path, "event")
    assert [each["event"] for each in events if "attempt" in each] == ["start", "restart", "restart"]
    assert events[-1]["event"] == "end" and {each["event"] for each in events} > {"checkpoint"}
    restarts = [each for each in events if each["event"] == "restart"]
    assert [each["attempt"] for each in restarts] == [2, 3]
    begins = [each["step"] for each in restarts]
    assert 10 <= begins[0] < begins[1] and all(each["lost_steps"] < 20 for each in restarts)

    read = tensorboard(tmp_path)
    shown = read.Scalars("train/loss")
    assert [each.step for each in shown] == steps
    assert [each.value for each in shown] == pytest.approx(curve.tolist(), rel=1e-6)
    assert [(each.step, each.value) for each in read.Scalars("events/restart")] == [*zip(begins, (2.0, 3.0))]

    rows = wandb_rows(tmp_path)
    sent = {row["step"]: row["train/loss"] for row in rows if "train/loss" in row}
    assert sorted(sent) == steps and [sent[step] for step in steps] == curve.tolist()
    assert all(row["train/loss"] == sent[row["step"]] for row in rows if "train/loss" in row)
    assert [row["_step"] for row in rows] == list(range(len(rows))), "also where attempts follow at once"
    assert [row["step"] for row in rows if "events/restart" in row] == begins
    assert len({path.name for path in wandb_files(tmp_path)}) == 1, "the files of each attempt are of one run"

    with (tmp_path / "metrics.csv").open(newline="") as file:
        trained = [row for row in csv.DictReader(file) if row["kind"] == "train"]
    assert [int(row["step"]) for row in trained] == steps
    assert [float(row["loss"]) for row in trained] == curve.tolist()
