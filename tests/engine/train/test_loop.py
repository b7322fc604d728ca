"""The loop around steps: what it does at which step, and that a stop between any two of them moves nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable

import cv2
import numpy as np
import pytest

from mxtrain import config
from mxtrain.checkpoint import directory, resume
from mxtrain.checkpoint.input_identity import InputIdentity
from mxtrain.core.errors import Stop
from mxtrain.data.records.record_file import open_records
from mxtrain.data.records.record_writer import RecordWriter
from mxtrain.report.sinks.record import Record
from mxtrain.tasks.classification import Classification
from mxtrain.train import loop, signals
from tests.support.nets.training_steps import QUICK_NET

CLASSES, SIZE, SAMPLES = 3, 16, 40
STEPS_OF_EPOCH, STEPS = 3, 6
EVERY_STEP = "--checkpoint-steps 1 --keep-last 20"
WITHOUT_TIME = ("step", "epoch", "loss", "accuracy", "lr", "val_loss", "val_accuracy")


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("packed") / "train.rec"
    rng = np.random.default_rng(0)
    with RecordWriter(path) as writer:
        for key in range(SAMPLES):
            pixels = rng.integers(0, 256, (SIZE, SIZE, 3), dtype=np.uint8)
            writer.write(key, float(key % CLASSES), cv2.imencode(".png", pixels)[1].tobytes())
    return path


def train(
    packed: Path,
    out: Path,
    flags: str = "",
    on_record: Callable[[Record, list[Stop]], None] = lambda record, stop_requests: None,
) -> Any:
    """Call the loop as a command does: from the newest checkpoint, or from the start."""
    out.mkdir(exist_ok=True)
    line = (
        f"--train {packed} --val {packed} --image-size {SIZE} --out {out} --model {QUICK_NET} --augment flip"
    )
    rest = "--batch-size 16 --micro-batch 4 --lr 0.05 --epochs 2 --log none --threads 1"
    run = config.parse(f"{line} {rest} {flags}".split())
    records, validation = open_records(packed), open_records(packed)
    description = Classification.numbered(run, CLASSES).description
    identity = InputIdentity.of_run(run, records, validation, description)
    point = resume.find(run, identity)
    requests: list[Stop] = []
    return loop.train(
        run,
        records,
        validation,
        identity,
        point and point.checkpoint,
        requests,
        on_record=lambda record: on_record(record, requests),
    )


def records_of(out: Path) -> list[Record]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def of_kind(out: Path, kind: str) -> list[Record]:
    """The records of one kind without what depends on the clock; of a step that was repeated, the last."""
    by_step = {record["step"]: record for record in records_of(out) if record["kind"] == kind}
    return [
        {name: record[name] for name in WITHOUT_TIME if name in record}
        for _, record in sorted(by_step.items())
    ]


def checkpoints(out: Path) -> list[int]:
    return sorted(directory.intact_steps(out / "checkpoints"))


def stop_after(step: int, request: Stop) -> Callable[[Record, list[Stop]], None]:
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


@pytest.mark.parametrize("step", [1, 2, STEPS_OF_EPOCH, STEPS_OF_EPOCH + 1, STEPS - 1])
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
