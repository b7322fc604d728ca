"""Two workers that look closely at every step: the same curve, and times that add up to wall time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mxtrain.train.telemetry.stage_clock import COMPUTE_STAGES, STEP_STAGES
from tests.support.commands import Command
from tests.support.jobs.cluster_run import CLUSTER, flags
from tests.support.losses import slow_worker
from tests.support.runs import assert_same_checkpoint, curve, records, seconds_of

SHORT = ["--max-steps", "12", "--checkpoint-steps", "5"]


@pytest.fixture(scope="module")
def sampled(digits: Path, tmp_path_factory: pytest.TempPathFactory, command: Command) -> Path:
    """The run folder of two workers."""
    out = tmp_path_factory.mktemp("sampled")
    done = command("mxtrain.fit", *flags(digits, out, *SHORT, *CLUSTER, "--sample-steps", "1"))
    assert done.returncode == 0, done.stderr
    return out


def unsampled(out: Path) -> list[dict[str, Any]]:
    found = [each for each in curve(out) if each["kind"] != "layers"]
    return [{name: value for name, value in each.items() if name != "sampled"} for each in found]


@pytest.mark.slow  # tests/engine/train/telemetry/test_sampling.py has it in one process
def test_no_bit_depends_on_who_looks(sampled: Path, digits: Path, tmp_path: Path, command: Command) -> None:
    done = command("mxtrain.fit", *flags(digits, tmp_path, *SHORT, "--sample-steps", "0"))
    assert done.returncode == 0, done.stderr
    assert not records(tmp_path, "layers", "workers")
    assert len(records(sampled, "layers")) == len(records(sampled, "workers")) == 12
    assert unsampled(sampled) == unsampled(tmp_path)
    assert_same_checkpoint(sampled, tmp_path)


def test_the_parts_of_a_step_add_up(sampled: Path) -> None:
    for each in records(sampled, "train"):
        assert sum(each[f"{stage}_seconds"] for stage in STEP_STAGES) == pytest.approx(each["seconds"])
        of_compute = sum(each[f"{stage}_seconds"] for stage in COMPUTE_STAGES)
        assert of_compute == pytest.approx(each["compute_seconds"]) and each["sampled"]


@pytest.mark.alone
def test_steps_evaluations_and_checkpoints_add_up_to_wall_time(
    sampled: Path, digits: Path, tmp_path: Path, command: Command
) -> None:
    """A hole in the records is in every run; 10 ms that the machine gave to somebody else are in one."""
    if adds_up(sampled):
        return
    for again in ("second", "third"):
        out = tmp_path / again
        done = command("mxtrain.fit", *flags(digits, out, *SHORT, *CLUSTER, "--sample-steps", "1"))
        assert done.returncode == 0, done.stderr
        if adds_up(out):
            return
    pytest.fail("in three runs, steps, evaluations and checkpoints have not added up to the time that passed")


def adds_up(out: Path) -> bool:
    """Tell whether the times in a run's records are all the time that passed from its second step to its end."""
    found = records(out, "train", "eval", "event")
    second = next(place for place, each in enumerate(found) if each["step"] == 2)  # the first makes all files
    passed = found[-1]["time"] - found[second]["time"]
    assert found[-1]["event"] == "end"
    return bool(sum(map(seconds_of, found[second + 1 :])) == pytest.approx(passed, rel=0.03, abs=0.005))


def test_each_worker_tells_its_times(sampled: Path) -> None:
    trained = {each["step"]: each for each in records(sampled, "train")}
    for record in records(sampled, "workers"):
        first, second = record["workers"]
        assert (first["rank"], second["rank"]) == (0, 1) and first["host"] == second["host"] != ""
        for name in (f"{stage}_seconds" for stage in STEP_STAGES):
            assert first[name] == pytest.approx(trained[record["step"]][name]) and second[name] >= 0
        assert min(each["rss_bytes"] for each in (first, second)) > 50e6
        assert min(each["cpu_percent"] for each in (first, second)) > 0


@pytest.mark.slow  # tests/unit/train/telemetry/test_worker_times.py: who is a straggler, and why
def test_the_log_names_a_straggler_once(digits: Path, tmp_path: Path, command: Command) -> None:
    slow = ["--loss", "tests.support.losses.slow_worker:loss", "--sample-steps", "2", "--max-steps", "20"]
    done = command("mxtrain.fit", *flags(digits, tmp_path, *CLUSTER, *slow))
    assert done.returncode == 0, done.stderr
    said = [line for line in (tmp_path / "logs" / "fit.log").read_text().splitlines() if "waiting" in line]
    assert len(said) == 1 and "worker 1 on" in said[0] and "it computes slowly" in said[0]
    first, second = records(tmp_path, "workers")[-1]["workers"]
    waits = 4 / 2 * slow_worker.SECONDS  # for each of its micro-batches
    assert second["compute_seconds"] > waits
    assert first["synchronize_seconds"] > 0.8 * waits > second["synchronize_seconds"]
