"""Facts about the machine: quotas and memory from real files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mxtrain.core.system import machine
from tests.support.processes.fresh_process import ask, write


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


def test_asking_needs_nothing_but_the_standard_library() -> None:
    facts = "[machine.cpu(), machine.shared_memory(), gpus.detect(), machine.usable_cores()]"
    processor, shm, gpus, cores = ask(facts, "-S")
    assert set(processor["instructions"]) <= set(machine.CPU_INSTRUCTIONS)
    assert 0 <= shm["free_bytes"] <= shm["total_bytes"]
    assert bool(gpus["devices"]) != bool(gpus["reason"])
    assert 1 <= cores <= (os.cpu_count() or 1)


@pytest.mark.parametrize(
    ("environ", "number"),
    [
        ({}, 0),
        ({"OMP_NUM_THREADS": "3", "MXNET_OMP_MAX_THREADS": "5"}, 3),
        ({"OMP_NUM_THREADS": "", "MXNET_OMP_MAX_THREADS": "5"}, 5),
        ({"OMP_NUM_THREADS": "4,2"}, 4),
        ({"OMP_NUM_THREADS": "all"}, 0),
    ],
)
def test_a_variable_of_the_users_sets_the_threads(environ: dict[str, str], number: int) -> None:
    assert machine.threads_of_variable(environ) == number


def test_without_a_flag_or_variable_each_process_has_its_share_of_the_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "usable_cores", lambda: 8)
    for name in ("OMP_NUM_THREADS", "MXNET_OMP_MAX_THREADS"):
        monkeypatch.delenv(name, raising=False)
    assert [machine.openmp_threads(0, workers) for workers in (1, 2, 3, 9)] == [8, 4, 2, 1]
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert machine.openmp_threads(0, 2) == 3
    assert machine.openmp_threads(5, 2) == 5
