"""Checkpoints are written one at a time beside the training, and every failed write is reported."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any, NamedTuple, ValuesView

import numpy as np
import pytest

from mxtrain.checkpoint import directory
from mxtrain.checkpoint.checkpointer import Checkpointer
from mxtrain.checkpoint.directory import Snapshot
from mxtrain.config import Output
from mxtrain.core.errors import Diverged, Stopped, UsageError


class Held(dict):  # type: ignore[type-arg]
    """Arrays that wait for `leave` once the writer has come to them."""

    def __init__(self) -> None:
        super().__init__(a=np.ones(3, np.float32))
        self.reached, self.leave = threading.Event(), threading.Event()

    def values(self) -> ValuesView[Any]:
        self.reached.set()
        assert self.leave.wait(timeout=20)
        return super().values()


def snapshot(step: int, arrays: dict[str, Any] | None = None) -> Snapshot:
    return Snapshot(step, {"weights.params": arrays or {"a": np.ones(3, np.float32)}}, {"score": None})


def output(tmp_path: Path, **flags: Any) -> Output:
    (tmp_path / "metrics.jsonl").touch()
    return Output(out=str(tmp_path), **flags)


def steps(tmp_path: Path) -> list[int]:
    return [int(path.name[5:]) for path in sorted((tmp_path / "checkpoints").glob("step-*"))]


class At(NamedTuple):
    """The state of a run after `step` updates."""

    step: int
    score: float | None = None


START = At(0)


def test_a_checkpoint_is_due_on_request_and_by_steps_and_minutes(tmp_path: Path) -> None:
    with Checkpointer(output(tmp_path), START) as checkpointer:
        assert not checkpointer.is_due(At(1), is_requested=False)
        assert checkpointer.is_due(At(1), is_requested=True)
    with Checkpointer(output(tmp_path, checkpoint_steps=3), START) as checkpointer:
        assert [step for step in range(10) if checkpointer.is_due(At(step), False)] == [3, 6, 9]
    with Checkpointer(output(tmp_path, checkpoint_minutes=1), START) as checkpointer:
        assert not checkpointer.is_interval_over()
        checkpointer._last_seconds -= 61
        assert checkpointer.is_interval_over()
        checkpointer.save(At(2), snapshot(2))
        assert not checkpointer.is_interval_over(), "the minutes count from the last one"


def test_a_step_is_saved_again_only_with_a_score(tmp_path: Path) -> None:
    with Checkpointer(output(tmp_path), START) as checkpointer:
        assert not checkpointer.is_due(START, is_requested=True), "a start is no progress"
        checkpointer.save(At(1), None)
        assert not checkpointer.is_due(At(1), is_requested=True)
        assert checkpointer.is_due(At(1, score=0.5), is_requested=True)


def test_saving_does_not_wait_for_the_write(tmp_path: Path) -> None:
    held = Held()
    with Checkpointer(output(tmp_path), START) as checkpointer:
        checkpointer.save(At(1), snapshot(1, held))
        assert held.reached.wait(timeout=20)
        checkpointer.raise_if_failed()
        assert checkpointer.is_writing() and steps(tmp_path) == []
        held.leave.set()
    assert steps(tmp_path) == [1], "leaving waits for it"


def test_a_save_waits_for_the_write_before(tmp_path: Path) -> None:
    held = Held()
    with Checkpointer(output(tmp_path), START) as checkpointer:
        checkpointer.save(At(1), snapshot(1, held))
        assert held.reached.wait(timeout=20)
        threading.Timer(0.1, held.leave.set).start()
        checkpointer.save(At(2), snapshot(2))
        assert 1 in steps(tmp_path)
    assert steps(tmp_path) == [1, 2]


def test_old_checkpoints_are_pruned(tmp_path: Path) -> None:
    with Checkpointer(output(tmp_path, keep_last=2, keep_best=0), START) as checkpointer:
        for step in (1, 2, 3):
            checkpointer.save(At(step), snapshot(step))
    assert steps(tmp_path) == [2, 3]


def test_a_failed_write_ends_the_run_at_the_next_step(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("in the way")
    with pytest.raises(UsageError, match="step-00000001: cannot be written"), Checkpointer(
        output(tmp_path), START
    ) as checkpointer:
        checkpointer.save(At(1), snapshot(1))
        end = time.monotonic() + 20
        while time.monotonic() < end:
            checkpointer.raise_if_failed()
            time.sleep(0.01)


@pytest.mark.parametrize("ending", [None, Stopped("stopped after a checkpoint", 143), Diverged("no numbers")])
def test_a_failed_write_is_reported_at_the_end(tmp_path: Path, ending: Exception | None) -> None:
    (tmp_path / "checkpoints").write_text("in the way")
    with pytest.raises(UsageError, match="cannot be written"), Checkpointer(
        output(tmp_path), START
    ) as checkpointer:
        checkpointer.save(At(1), snapshot(1))
        if ending is not None:
            raise ending


def test_a_bug_keeps_its_traceback(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("in the way")
    with pytest.raises(ZeroDivisionError), Checkpointer(output(tmp_path), START) as checkpointer:
        checkpointer.save(At(1), snapshot(1))
        raise ZeroDivisionError


def test_the_writing_thread_writes_the_same_bytes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    taken = snapshot(7, {f"{number}.weight": rng.standard_normal((64, 33)) for number in range(20)})
    with Checkpointer(output(tmp_path), START) as checkpointer:
        checkpointer.save(At(7), taken)
    here = directory.write(tmp_path / "foreground", taken)
    beside = tmp_path / "checkpoints" / here.name
    names = sorted(path.name for path in here.iterdir())
    assert names == ["manifest.json", "state.json", "weights.params"]
    for name in names:
        assert (beside / name).read_bytes() == (here / name).read_bytes()
