"""What tests of --amp bf16 need, which many desktops have not."""

from __future__ import annotations

import pytest

from mxtrain.core import kernels

problem = kernels.bf16_problem()
needs_bf16 = pytest.mark.skipif(problem is not None, reason=f"--amp bf16 {problem}")
MIXED = "off" if problem else "bf16"  # for tests of something else, which narrow numbers make harder
