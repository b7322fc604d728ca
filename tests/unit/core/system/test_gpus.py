"""GPUs that a driver lists, from a real library, and which of them can train."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mxtrain.core.system import gpus
from tests.support.processes.fresh_process import ask, write

A100 = {"index": 0, "name": "NVIDIA A100", "capability": [8, 0], "memory_bytes": 40 << 30}
H100 = {"index": 1, "name": "NVIDIA H100", "capability": [9, 0], "memory_bytes": 80 << 30}


def test_gpu_without_the_cuda_wheel_is_refused(tmp_path: Path) -> None:
    problem = ask("gpus.problem(2)", "-S")
    assert problem.startswith("gpu:2 needs MXNet's CUDA build")
    assert "--devices cpu" in problem


def test_gpus_are_judged_by_what_the_wheel_holds_code_for() -> None:
    both = {"devices": [A100, H100], "reason": ""}
    assert gpus.device_problem(0, both) is None
    assert "compute capability 9.0" in str(gpus.device_problem(1, both))
    assert "gpu:2 does not exist" in str(gpus.device_problem(2, both))
    nothing = {"devices": [], "reason": "no NVIDIA driver"}
    assert "gpu:0 cannot be used, no NVIDIA driver" in str(gpus.device_problem(0, nothing))


DRIVERS = {
    "two GPUs": (
        """
        int cuInit(int f) { return 0; }
        int cuDeviceGetCount(int *n) { *n = 2; return 0; }
        int cuDeviceGet(int *d, int i) { *d = i; return 0; }
        int cuDeviceGetName(char *s, int n, int d) { strcpy(s, d ? "H100" : "A100"); return 0; }
        int cuDeviceGetAttribute(int *v, int a, int d) { *v = a == 75 ? 8 + d : 0; return 0; }
        int cuDeviceTotalMem_v2(size_t *m, int d) { *m = (size_t)40 << 30; return 0; }
        """,
        ["A100", "H100"],
        "",
    ),
    "no GPU": ("int cuInit(int f) { return 100; }", [], "cuInit returned 100"),
    "crash": ("int cuInit(int f) { abort(); }", [], "crashed"),
    "hang": ("int cuInit(int f) { sleep(100); return 0; }", [], "did not answer in 2 s"),
}


@pytest.mark.system
@pytest.mark.parametrize("case", DRIVERS)
def test_driver_is_asked_and_survived(case: str, tmp_path: Path) -> None:
    source, names, reason = DRIVERS[case]
    include = "#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n"
    write(tmp_path, {"cuda.c": include + source})
    library = str(tmp_path / "libcuda.so.1")
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", library, str(tmp_path / "cuda.c")], check=True, timeout=60
    )
    expression = "[setattr(gpus, 'PROBE_SECONDS', 2), gpus.detect()][1]"
    found = ask(expression, LD_LIBRARY_PATH=str(tmp_path))
    assert [gpu["name"] for gpu in found["devices"]] == names
    assert [gpu["capability"] for gpu in found["devices"]] == [[8, 0], [9, 0]][: len(names)]
    assert reason in found["reason"]
