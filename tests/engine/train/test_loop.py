"""The loop around steps: what it does at which step, and that a stop between any two of them moves nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mxtrain.checkpoint import directory
from mxtrain.core.errors import Stop
from mxtrain.report.sinks.record import Record
from mxtrain.train import signals
from tests.support.breadth import slow_cases
from tests.support.jobs import loop_run
from tests.support.jobs.loop_run import RecordHook, records_of, run_of

STEPS_OF_EPOCH, STEPS = 3, 6
EVERY_STEP = "--checkpoint-steps 1 --keep-last 20"
WITHOUT_TIME = ("step", "epoch", "loss", "accuracy", "lr", "val_loss", "val_accuracy")


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return loop_run.pack(tmp_path_factory.mktemp("packed"))


def train(packed: Path, out: Path, flags: str = "", **hook: RecordHook) -> Any:
    """Call the loop as a command does, with an evaluation after each epoch."""
    return loop_run.train(run_of(packed, out, f"--val {packed} --threads 1 {flags}"), **hook)


def of_kind(out: Path, kind: str) -> list[Record]:
    """The records of one kind without what depends on the clock; of a step that was repeated, the last."""
    by_step = {record["step"]: record for record in records_of(out) if record["kind"] == kind}
    return [
        {name: record[name] for name in WITHOUT_TIME if name in record}
        for _, record in sorted(by_step.items())
    ]


def checkpoints(out: Path) -> list[int]:
    return sorted(directory.intact_steps(out / "checkpoints"))


def stop_after(step: int, request: Stop) -> RecordHook:
    """A hook that asks for the end when the record of a step is written."""

    def hook(record: Record, stop_requests: list[Stop]) -> None:
        if record["kind"] == "train" and record["step"] == step and not stop_requests:
            stop_requests.append(request)

    return hook


@pytest.fixture(scope="module")
def undisturbed(packed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed")
    train(packed, out)
    return out


def test_each_step_has_one_record_and_each_epoch_an_evaluation(undisturbed: Path) -> None:
    steps = of_kind(undisturbed, "train")
    assert [record["step"] for record in steps] == list(range(1, STEPS + 1))
    assert [record["epoch"] for record in steps] == [1, 1, 1, 2, 2, 2]
    assert [record["step"] for record in of_kind(undisturbed, "eval")] == [STEPS_OF_EPOCH, STEPS]


def test_a_step_is_saved_before_it_is_evaluated(undisturbed: Path) -> None:
    """An evaluation that dies loses no step; once there is a score, the checkpoint is written with it."""
    order = [
        record.get("event", record["kind"])
        for record in records_of(undisturbed)
        if record["step"] == STEPS_OF_EPOCH and record.get("event", record["kind"]) in ("checkpoint", "eval")
    ]
    assert order == ["checkpoint", "eval", "checkpoint"]
    newest = directory.newest(undisturbed / "checkpoints")
    assert newest is not None and newest.state["score"] is not None


@pytest.mark.parametrize("step", [2, STEPS_OF_EPOCH, *slow_cases(1, STEPS_OF_EPOCH + 1, STEPS - 1)])
def test_a_stop_at_any_step_is_saved_and_moves_nothing(
    step: int, packed: Path, undisturbed: Path, tmp_path: Path
) -> None:
    request = signals.STOPS[15]
    with pytest.raises(type(request), match="SIGTERM"):
        train(packed, tmp_path, on_record=stop_after(step, request))
    assert checkpoints(tmp_path)[-1] == step
    train(packed, tmp_path)
    for kind in ("train", "eval"):
        assert of_kind(tmp_path, kind) == of_kind(undisturbed, kind)


def test_a_stop_at_the_end_of_an_epoch_leaves_its_evaluation_to_the_resume(
    packed: Path, tmp_path: Path
) -> None:
    with pytest.raises(Stop):
        train(packed, tmp_path, on_record=stop_after(STEPS_OF_EPOCH, signals.STOPS[15]))
    assert of_kind(tmp_path, "eval") == []
    train(packed, tmp_path)
    assert [record["step"] for record in of_kind(tmp_path, "eval")] == [STEPS_OF_EPOCH, STEPS]


def test_a_stop_after_the_last_step_waits_for_its_evaluation_only_on_resume(
    packed: Path, undisturbed: Path, tmp_path: Path
) -> None:
    with pytest.raises(Stop):
        train(packed, tmp_path, on_record=stop_after(STEPS, signals.STOPS[15]))
    train(packed, tmp_path)
    assert of_kind(tmp_path, "eval") == of_kind(undisturbed, "eval")


def test_a_hook_ends_the_run_with_its_net(packed: Path, tmp_path: Path) -> None:
    net = train(packed, tmp_path, on_record=stop_after(2, signals.BY_HOOK))
    assert net is not None and checkpoints(tmp_path) == [2]
    assert [record["step"] for record in of_kind(tmp_path, "train")] == [1, 2]
    assert records_of(tmp_path)[-1]["event"] == "stop"


def test_a_finished_run_takes_no_step_more(packed: Path, undisturbed: Path) -> None:
    before = of_kind(undisturbed, "train")
    steps = len([record for record in records_of(undisturbed) if record["kind"] == "train"])
    train(packed, undisturbed)
    assert of_kind(undisturbed, "train") == before
    assert len([record for record in records_of(undisturbed) if record["kind"] == "train"]) == steps


def test_saving_at_every_step_moves_nothing(packed: Path, undisturbed: Path, tmp_path: Path) -> None:
    train(packed, tmp_path, EVERY_STEP)
    assert checkpoints(tmp_path) == list(range(1, STEPS + 1))
    assert of_kind(tmp_path, "train") == of_kind(undisturbed, "train")
