"""The clock of stages: what it gives to them adds up to the time that passes, on sampled steps too."""

from __future__ import annotations

import time

import pytest

from mxtrain.train.telemetry.stage_clock import COMPUTE_STAGES, STEP_STAGES, StageClock, is_sampled


def test_the_sampled_steps_follow_from_their_numbers() -> None:
    assert [step for step in range(160) if is_sampled(step, 50)] == [0, 2, 5, 10, 20, 50, 100, 150]
    assert not any(is_sampled(step, 0) for step in range(1000))
    assert all(is_sampled(step, 1) for step in range(1, 60))


@pytest.mark.parametrize("sample_steps", [0, 1])
def test_all_parts_add_up_to_the_time_since_the_last_record(sample_steps: int) -> None:
    began = time.monotonic() - 5
    clock = StageClock(began, sample_steps)
    assert 5 <= clock.lap_apart() < 6
    started = time.monotonic()
    clock.start_step(1)
    for stage in (
        "other",
        "split",
        "load",
        *COMPUTE_STAGES,
        "load",
        *COMPUTE_STAGES,
        "synchronize",
        "update",
    ):
        time.sleep(0.002)
        clock.lap(stage)
    found, passed = clock.take(), time.monotonic() - started
    parts = [found[f"{stage}_seconds"] for stage in (*STEP_STAGES, "other")]
    assert all(each >= 0.002 for each in parts)
    assert sum(parts) == pytest.approx(passed, abs=0.001)
    assert found["seconds"] + found["other_seconds"] == pytest.approx(sum(parts), abs=1e-9)
    assert ("sampled" in found) == ("forward_seconds" in found) == bool(sample_steps)
    if sample_steps:
        of_compute = sum(found[f"{stage}_seconds"] for stage in COMPUTE_STAGES)
        assert of_compute == pytest.approx(found["compute_seconds"], abs=1e-9)
    assert not any(clock.take()[f"{stage}_seconds"] for stage in STEP_STAGES)


def test_what_is_lapped_behind_the_last_step_is_the_rest() -> None:
    clock = StageClock()
    clock.lap("other")
    clock.take()
    before = clock._last
    clock.lap("synchronize")
    time.sleep(0.01)
    assert clock.rest() == pytest.approx(clock._last - before) and clock.rest() < 0.01
