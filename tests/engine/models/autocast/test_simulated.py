"""Tests of bfloat16 where the CPU has none: graphs as where it has, with float32's operators between the roundings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.amp import SIMULATE, problem

ENGINE = Path(__file__).resolve().parents[2]
FILES = (
    *("benchmarks/test_bench_step.py", "inference/test_ensemble.py", "train/held/test_held_step.py"),
    *("train/staged/test_staged_step.py", "train/telemetry/test_sampling.py", "train/test_mapping.py"),
    *("train/test_nonfinite_errors.py", "train/test_step_scale.py"),
)


@pytest.mark.skipif(problem is None, reason="they run by themselves: the CPU has bfloat16")
@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("file", FILES)
def test_nets_in_bfloat16_train_by_all_of_this(file: str) -> None:
    line = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", str(ENGINE / file)]
    done = subprocess.run(
        line,
        cwd=ENGINE.parents[1],
        env={**os.environ, SIMULATE: "1"},
        capture_output=True,
        text=True,
        timeout=380,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "needs AVX-512" not in done.stdout
