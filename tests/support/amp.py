"""What tests of --amp bf16 need, which many desktops have not."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mxtrain.core.system import kernels

SIMULATE = "MXTRAIN_TEST_SIMULATED_BF16"  # set by tests of bfloat16 where the CPU has none
if os.environ.get(SIMULATE):
    from tests.support.nets import simulated_bfloat16

    _to_the_end = contextlib.ExitStack()  # of the process
    _to_the_end.enter_context(simulated_bfloat16.simulated())
problem = kernels.bf16_problem()
needs_bf16 = pytest.mark.skipif(problem is not None, reason=f"--amp bf16 {problem}")
# With AVX-512 alone bfloat16 is emulated, and a net of tokens is faster in float32.
has_fast_bf16 = problem is None and kernels.onednn() not in (kernels.AVX512, kernels.VNNI)
needs_fast_bf16 = pytest.mark.skipif(not has_fast_bf16, reason="bfloat16 is slower than float32 on this CPU")
ALL_NARROW = Path(__file__).resolve().parents[1] / "data" / "all_narrow.json"  # so small nets gain by it too
BF16 = f"--amp bf16 --amp-table {ALL_NARROW}"
MIXED = "off" if problem else "bf16"  # for tests of something else, which narrow numbers make harder
AMP = os.environ.get("MXTRAIN_TEST_AMP", "--amp off")  # set by test_the_same_in_bfloat16


def again_in_bfloat16(file: str, names: str) -> None:
    again({"MXTRAIN_TEST_AMP": BF16}, file, "-m", "", "-k", f"({names}) and not bfloat16")


def again(environment: dict[str, str], *arguments: str) -> str:
    """Run tests in a process of their own, which has to end well, and return what it says."""
    line = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    whole, root = {**os.environ, **environment}, Path(__file__).resolve().parents[2]
    done = subprocess.run(line, cwd=root, env=whole, capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout
