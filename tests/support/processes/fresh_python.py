"""Python code in a process of its own, without what steers threads and kernels in this one.

Its threads are as many as a user's, and leave the cores to other tests where they wait.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from mxtrain.core.system import kernels

ROOT = Path(__file__).resolve().parents[3]
STEERING = (
    *("OMP_NUM_THREADS", "MXNET_OMP_MAX_THREADS", "OPENBLAS_NUM_THREADS", "DMLC_ROLE"),
    *kernels.VARIABLES,
)


def run(
    code: str, *options: str, timeout: float = 60, **environment: str
) -> subprocess.CompletedProcess[str]:
    neutral = {name: value for name, value in os.environ.items() if name not in STEERING}
    return subprocess.run(
        [sys.executable, *options, "-c", code],
        env={**neutral, "OMP_WAIT_POLICY": "passive", "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def answer(code: str, *options: str, timeout: float = 60, **environment: str) -> Any:
    done = run(f"import json\n{code}\nprint(json.dumps(answer))", *options, timeout=timeout, **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
