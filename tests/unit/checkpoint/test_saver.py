"""Checkpoints are written one at a time beside whoever asked for them, and no failure goes unsaid."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any, ValuesView

import numpy as np
import pytest

from mxtrain.checkpoint import directory
from mxtrain.checkpoint.directory import Snapshot
from mxtrain.checkpoint.saver import Saver
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


def keep(tmp_path: Path, **flags: Any) -> Output:
    (tmp_path / "metrics.jsonl").touch()
    return Output(out=str(tmp_path), **flags)


def steps(tmp_path: Path) -> list[int]:
    return [int(path.name[5:]) for path in sorted((tmp_path / "checkpoints").glob("step-*"))]


def test_when_one_is_due(tmp_path: Path) -> None:
    with Saver(keep(tmp_path)) as saver:
        assert [saver.is_due(step, anyway=False) for step in (1, 2)] == [False, False]
        assert saver.is_due(1, anyway=True)
    with Saver(keep(tmp_path, checkpoint_steps=3)) as saver:
        assert [step for step in range(1, 10) if saver.is_due(step, anyway=False)] == [3, 6, 9]
    with Saver(keep(tmp_path, checkpoint_minutes=1)) as saver:
        assert not saver.is_time()
        saver.last_seconds -= 61
        assert saver.is_time()
        saver.save(snapshot(2))
        assert not saver.is_time(), "the minutes count from the last one"


def test_whoever_saves_does_not_wait_for_the_write(tmp_path: Path) -> None:
    held = Held()
    with Saver(keep(tmp_path)) as saver:
        saver.save(snapshot(1, held))
        assert held.reached.wait(timeout=20)
        assert not saver.is_due(2, anyway=False)
        assert steps(tmp_path) == []
        held.leave.set()
    assert steps(tmp_path) == [1], "leaving waits for it"


def test_the_next_one_waits_for_the_one_before(tmp_path: Path) -> None:
    held = Held()
    with Saver(keep(tmp_path)) as saver:
        saver.save(snapshot(1, held))
        assert held.reached.wait(timeout=20)
        threading.Timer(0.1, held.leave.set).start()
        assert saver.is_due(2, anyway=True)
        assert steps(tmp_path) == [1]
        saver.save(snapshot(2))
    assert steps(tmp_path) == [1, 2]


def test_old_ones_are_pruned(tmp_path: Path) -> None:
    with Saver(keep(tmp_path, keep_last=2, keep_best=0)) as saver:
        for step in (1, 2, 3):
            saver.save(snapshot(step))
    assert steps(tmp_path) == [2, 3]


def test_a_failed_write_ends_the_run_at_the_next_step(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("in the way")
    with pytest.raises(UsageError, match="step-00000001: cannot be written"), Saver(keep(tmp_path)) as saver:
        saver.save(snapshot(1))
        end = time.monotonic() + 20
        while not saver.is_due(2, anyway=False) and time.monotonic() < end:
            time.sleep(0.01)


@pytest.mark.parametrize("ending", [None, Stopped("stopped after a checkpoint", 143), Diverged("no numbers")])
def test_a_failed_write_is_said_at_the_end(tmp_path: Path, ending: Exception | None) -> None:
    (tmp_path / "checkpoints").write_text("in the way")
    with pytest.raises(UsageError, match="cannot be written"), Saver(keep(tmp_path)) as saver:
        saver.save(snapshot(1))
        if ending is not None:
            raise ending


def test_a_bug_keeps_its_traceback(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("in the way")
    with pytest.raises(ZeroDivisionError), Saver(keep(tmp_path)) as saver:
        saver.save(snapshot(1))
        raise ZeroDivisionError


def test_beside_is_the_same_bytes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    taken = snapshot(7, {f"{number}.weight": rng.standard_normal((64, 33)) for number in range(20)})
    with Saver(keep(tmp_path)) as saver:
        saver.save(taken)
    here = directory.write(tmp_path / "foreground", taken)
    beside = tmp_path / "checkpoints" / here.name
    names = sorted(path.name for path in here.iterdir())
    assert names == ["manifest.json", "state.json", "weights.params"]
    for name in names:
        assert (beside / name).read_bytes() == (here / name).read_bytes()
