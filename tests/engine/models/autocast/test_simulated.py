"""Tests of bfloat16 where the CPU has none: graphs as where it has, with float32's operators between the roundings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.amp import SIMULATE, again, problem

ENGINE = Path(__file__).resolve().parents[2]
FILES = (
    *("benchmarks/test_bench_step.py", "inference/test_ensemble.py", "train/held/test_held_step.py"),
    *("train/staged/test_staged_step.py", "train/telemetry/test_sampling.py", "train/test_mapping.py"),
    *("train/test_nonfinite_errors.py", "train/test_step_scale.py"),
)


@pytest.mark.skipif(problem is None, reason="they run by themselves: the CPU has bfloat16")
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("file", FILES)
def test_nets_in_bfloat16_train_by_all_of_this(file: str) -> None:
    assert "needs AVX-512" not in again({SIMULATE: "1"}, "-rs", str(ENGINE / file))
