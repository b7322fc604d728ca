"""Facts about this machine: cores, memory, CPU instructions, shared memory.

Owns questions that the operating system answers, so that a run can be refused before anything heavy loads, and
doctor can explain a machine on which mxnet does not start. Wheels are `wheels.py`'s, GPUs `gpus.py`'s.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Iterator, Mapping

CPU_INSTRUCTIONS = (
    "avx2",
    "fma",
    "avx512f",
    "avx512_vnni",
    "avx_vnni",
    "avx512_bf16",
    "amx_tile",
    "amx_int8",
    "amx_bf16",
)


def usable_cores(root: Path = Path("/")) -> int:
    """Return how many cores this process may really use: its affinity mask's, limited by the cgroup's CPU quota.

    A fraction is rounded down: OpenMP teams wait for their slowest thread, and a thread more than the quota
    pays for is throttled for the rest of each scheduling period.
    """
    cores = len(os.sched_getaffinity(0))
    quota = cgroup_cores(root)
    return cores if quota is None else max(1, min(cores, int(quota)))


def openmp_threads(flag: int, local_workers: int) -> int:
    """Return with how many OpenMP threads each of `local_workers` processes computes an operator.

    As many as --threads (`flag`, 0 if left out) or a variable of the user's asks for, else its share of the cores.
    """
    return flag or threads_of_variable() or share_of_cores(usable_cores(), local_workers)


def share_of_cores(cores: int, local_workers: int) -> int:
    """Return how many of the cores each of `local_workers` processes gets."""
    return max(1, cores // local_workers)


def thread_variable(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the name of the user's variable that sets OpenMP's threads for MXNet; None where there is none."""
    return next((name for name in ("OMP_NUM_THREADS", "MXNET_OMP_MAX_THREADS") if environ.get(name)), None)


def threads_of_variable(environ: Mapping[str, str] = os.environ) -> int:
    """Return the number of threads that the user's variable sets; 0 where there is none, or no number in it."""
    first = (
        environ.get(thread_variable(environ) or "", "").partition(",")[0].strip()
    )  # OpenMP's may be one a level
    return int(first) if first.isdecimal() else 0


def cgroup_cores(root: Path = Path("/")) -> float | None:
    """Return the smallest CPU quota, in cores, of this process's cgroup and its ancestors; None without one."""
    return min((c for c in map(_quota_of, _cgroup_folders("cpu", root)) if c is not None), default=None)


def available_memory(root: Path = Path("/")) -> int:
    """Return the bytes that this process can still allocate: what the machine and its cgroups have left."""
    lines = (line.split() for line in _read(root / "proc/meminfo").splitlines())
    machines = [int(words[1]) << 10 for words in lines if words[0] == "MemAvailable:"]
    cgroups = (_memory_left(folder) for folder in _cgroup_folders("memory", root))
    return min([*machines, *(left for left in cgroups if left is not None)], default=1 << 62)


def swap_left(root: Path = Path("/")) -> int:
    """Return the bytes that the machine could still swap out."""
    lines = (line.split() for line in _read(root / "proc/meminfo").splitlines())
    return sum(int(words[1]) << 10 for words in lines if words[0] == "SwapFree:")


def _memory_left(folder: Path) -> int | None:
    """Return the bytes left below this cgroup's limit; cached pages of files count as free."""
    for limit, used, idle in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        text = _read(folder / limit).strip()
        if text.isdecimal():
            statistics = dict(line.split() for line in _read(folder / "memory.stat").splitlines())
            return max(0, int(text) - int(_read(folder / used) or 0) + int(statistics.get(idle, 0)))
    return None


def _cgroup_folders(controller: str, root: Path) -> Iterator[Path]:
    """Yield the folders of a controller for this process's cgroup and its ancestors, of cgroup v1 and v2."""
    for line in filter(None, _read(root / "proc/self/cgroup").split("\n")):
        _, controllers, group = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        for mount in [controllers, controller] if controllers else ["", "unified"]:
            top = root / "sys/fs/cgroup" / mount
            here = top / group.strip("/")
            # Inside a container the path may be the host's, which does not exist here: its ancestors do.
            yield from [here, *here.parents][: len(here.parts) - len(top.parts) + 1]


def _quota_of(folder: Path) -> float | None:
    limit = _read(folder / "cpu.max").split()  # cgroup v2: "150000 100000" or "max 100000"
    if not limit:  # cgroup v1; -1 is no limit
        limit = (_read(folder / "cpu.cfs_quota_us") + " " + _read(folder / "cpu.cfs_period_us")).split()
    if len(limit) != 2 or limit[0] in ("max", "-1"):
        return None
    return int(limit[0]) / int(limit[1])


def cpu() -> dict[str, Any]:
    """Return the processor's name and those of CPU_INSTRUCTIONS that it has."""
    flags = cpu_flags()
    return {
        "name": _cpuinfo().get("model name", "unknown"),
        "instructions": [name for name in CPU_INSTRUCTIONS if name in flags],
    }


def cpu_flags() -> set[str]:
    """Return the instruction sets that the processor has and the system enables, by Linux's names."""
    return set(_cpuinfo().get("flags", "").split())


def _cpuinfo() -> dict[str, str]:
    lines = (line.split(":", 1) for line in _read(Path("/proc/cpuinfo")).splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in lines}


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that all threads of a process have used; 0 where there is no such process."""
    fields = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


def process_began() -> float:
    """Return when this process was started, by time.monotonic(); to a hundredth of a second."""
    fields = _read(Path("/proc/self/stat")).rpartition(")")[2].split()
    if not fields:
        return time.monotonic()
    since_boot = time.clock_gettime(time.CLOCK_BOOTTIME)
    return min(time.monotonic(), time.monotonic() - since_boot + int(fields[19]) / os.sysconf("SC_CLK_TCK"))


def resident_bytes(pid: int) -> int:
    """Return the memory that a process has in RAM, shared memory with it; 0 where there is no such process."""
    fields = _read(Path(f"/proc/{pid}/statm")).split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if fields else 0


def shared_memory() -> dict[str, int]:
    """Return the size and the free space of /dev/shm in bytes; zeros without one. Gluon's DataLoader needs it."""
    try:
        shm = os.statvfs("/dev/shm")
    except OSError:
        return {"total_bytes": 0, "free_bytes": 0}
    return {"total_bytes": shm.f_blocks * shm.f_frsize, "free_bytes": shm.f_bavail * shm.f_frsize}


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
