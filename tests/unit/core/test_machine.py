"""Facts about the machine: quotas from real files, conflicts from real wheel metadata, GPUs from a real library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mxtrain.core import gpus, machine

ROOT = Path(__file__).resolve().parents[3]
A100 = {"index": 0, "name": "NVIDIA A100", "capability": [8, 0], "memory_bytes": 40 << 30}
H100 = {"index": 1, "name": "NVIDIA H100", "capability": [9, 0], "memory_bytes": 80 << 30}


def ask(expression: str, *options: str, **environment: str) -> Any:
    """The value of a machine.* expression in a fresh process."""
    code = f"import json, os; from mxtrain.core import gpus, machine, wheels; print(json.dumps({expression}))"
    done = subprocess.run(
        [sys.executable, *options, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_affinity_limits_the_cores() -> None:
    one = min(os.sched_getaffinity(0))
    assert ask(f"[os.sched_setaffinity(0, [{one}]), machine.usable_cores()]") == [None, 1]


QUOTAS = {
    "v2": (1.5, {"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "150000 100000\n"}),
    "v2, the parent's is smaller": (
        2.0,
        {
            "proc/self/cgroup": "0::/a/b\n",
            "sys/fs/cgroup/a/b/cpu.max": "400000 100000\n",
            "sys/fs/cgroup/a/cpu.max": "200000 100000\n",
        },
    ),
    "v2, a name with what is no line break": (
        1.5,
        {"proc/self/cgroup": "0::/a\u2028b\n", "sys/fs/cgroup/a\u2028b/cpu.max": "150000 100000\n"},
    ),
    "v2 without a limit": (None, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}),
    "v2 in a container": (0.5, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "50000 100000\n"}),
    "v1": (
        3.0,
        {
            "proc/self/cgroup": "4:memory:/x\n3:cpu,cpuacct:/x\n",
            "sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us": "300000\n",
            "sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us": "100000\n",
        },
    ),
    "v1 in a container, which is told the host's path": (
        1.0,
        {
            "proc/self/cgroup": "3:cpu,cpuacct:/docker/0123\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "100000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
    ),
    "v1 without a limit": (
        None,
        {
            "proc/self/cgroup": "1:cpu:/\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
    ),
    "no cgroups": (None, {}),
}


@pytest.mark.parametrize("case", QUOTAS)
def test_cgroup_quota(case: str, tmp_path: Path) -> None:
    cores, files = QUOTAS[case]
    assert machine.cgroup_cores(write(tmp_path, files)) == cores


@pytest.mark.parametrize(
    ("files", "megabytes"),
    [
        ({}, 1000),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n"}, 1000),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/memory.max": f"{500 << 20}\n",
                "sys/fs/cgroup/a/memory.current": f"{450 << 20}\n",
                "sys/fs/cgroup/a/memory.stat": f"anon 5\ninactive_file {30 << 20}\n",
            },
            80,
        ),
        (
            {
                "proc/self/cgroup": "9:memory:/job\n",
                "sys/fs/cgroup/memory/job/memory.limit_in_bytes": f"{100 << 20}\n",
                "sys/fs/cgroup/memory/job/memory.usage_in_bytes": f"{120 << 20}\n",
            },
            0,
        ),
    ],
)
def test_available_memory_is_the_machines_or_what_a_cgroup_leaves(
    files: dict[str, str], megabytes: int, tmp_path: Path
) -> None:
    meminfo = f"MemTotal: 5 kB\nMemAvailable: {1000 << 10} kB\n"
    root = write(tmp_path, {"proc/meminfo": meminfo, **files})
    assert machine.available_memory(root) >> 20 == megabytes


def test_quota_rounds_down_but_never_to_nothing(tmp_path: Path) -> None:
    group = {"proc/self/cgroup": "0::/\n"}
    for quota, cores in (("190000", 1), ("50000", 1), ("99900000", len(os.sched_getaffinity(0)))):
        root = write(tmp_path, {**group, "sys/fs/cgroup/cpu.max": f"{quota} 100000\n"})
        assert machine.usable_cores(root) == cores


GOOD = {"mxnet": "1.9.1", "gluoncv": "0.10.5.post0", "numpy": "1.26.4", "opencv-python": "4.10.0.84"}
CONFLICTS = {
    "both mxnets": ({"mxnet-cu112": "1.9.1"}, "mxnet and mxnet-cu112", "pip uninstall -y mxnet mxnet-cu112"),
    "no mxnet": ({"mxnet": ""}, "no mxnet", "pip install '.[cpu]'"),
    "no gluoncv": ({"gluoncv": ""}, "gluoncv", "pip install gluoncv=="),
    "NumPy 2": ({"numpy": "2.1.0"}, "numpy 2.1.0 is too new", "pip install 'numpy>=1.23.5,<2'"),
    "old NumPy": ({"numpy": "1.22.4"}, "numpy 1.22.4 is too old", "pip install 'numpy>=1.23.5,<2'"),
    "slow OpenCV": ({"opencv-python": "4.9.0.80"}, "4.9.0.80 decodes", "pip install 'opencv-python>=4.10"),
    "OpenCV for NumPy 2": ({"opencv-python": "4.12.0.88"}, "needs NumPy 2", "'opencv-python>=4.10,<4.12'"),
    "no OpenCV": ({"opencv-python": ""}, "opencv-python is not", "pip install 'opencv-python>=4.10,<4.12'"),
    "two OpenCVs": (
        {"opencv-python-headless": "4.11.0.86"},
        "opencv-python and opencv-python-headless overwrite",
        "pip uninstall -y opencv-python opencv-python-headless && pip install",
    ),
    "cuDNN 9": (
        {"mxnet": "", "mxnet-cu112": "1.9.1", "nvidia-cudnn-cu11": "9.10.2.21"},
        "nvidia-cudnn-cu11 9.10.2.21 is too new",
        "pip install nvidia-cudnn-cu11==8.9.6.50",
    ),
}


def installed(folder: Path, wheels: dict[str, str]) -> list[str]:
    """The conflicts that a process sees when just these wheels are installed for it."""
    for name, version in wheels.items():
        if version:
            metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            write(folder, {f"{name.replace('-', '_')}-{version}.dist-info/METADATA": metadata})
    found = ask("wheels.conflicts()", "-S", PYTHONPATH=f"{folder}{os.pathsep}{ROOT}")
    assert isinstance(found, list)
    return found


def test_a_good_set_has_no_conflicts(tmp_path: Path) -> None:
    assert installed(tmp_path, GOOD) == []


@pytest.mark.parametrize("case", CONFLICTS)
def test_conflict_names_the_culprit_and_the_cure(case: str, tmp_path: Path) -> None:
    change, culprit, cure = CONFLICTS[case]
    (sentence,) = installed(tmp_path, {**GOOD, **change})
    assert culprit in sentence
    assert cure in sentence


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


def test_asking_needs_nothing_but_the_standard_library() -> None:
    facts = "[machine.cpu(), machine.shared_memory(), gpus.detect(), machine.usable_cores()]"
    processor, shm, gpus, cores = ask(facts, "-S")
    assert set(processor["instructions"]) <= set(machine.CPU_INSTRUCTIONS)
    assert 0 <= shm["free_bytes"] <= shm["total_bytes"]
    assert bool(gpus["devices"]) != bool(gpus["reason"])
    assert 1 <= cores <= (os.cpu_count() or 1)
