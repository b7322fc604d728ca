"""Facts about this machine: cores, CPU instructions, GPUs, wheels, shared libraries, shared memory.

Owns every question that can be answered without mxnet, as plain functions returning plain values, so that
config can refuse what cannot work before anything heavy loads, and doctor can explain a machine on which
mxnet itself does not start. It changes nothing: `runtime` acts on what is found here.
"""

from __future__ import annotations

# Only the standard library: `gpus` runs this file by itself, where mxtrain is not to be found.
import os
import sys
from pathlib import Path
from typing import Any, Iterator

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

OPENCV_WHEELS = (
    "opencv-python",
    "opencv-python-headless",
    "opencv-contrib-python",
    "opencv-contrib-python-headless",
)
WHEELS = ("mxnet", "mxnet-cu112", "gluoncv", "numpy", *OPENCV_WHEELS, "simplejpeg", "nvidia-cudnn-cu11")

QUADMATH = "libquadmath.so.0"
# What a slim Debian lacks: the library, the package that has it, and who needs it.
SHARED_LIBRARIES = (
    ("libgomp.so.1", "libgomp1", "mxnet"),
    (QUADMATH, "libquadmath0", "mxnet"),
    ("libGL.so.1", "libgl1", "opencv-python"),
    ("libgthread-2.0.so.0", "libglib2.0-0", "opencv-python"),
)

GPU_PROBE_SECONDS = 20


def usable_cores(root: Path = Path("/")) -> int:
    """Cores this process may really use: its affinity mask, cut down by the cgroup's CPU quota.

    A fraction is rounded down: OpenMP teams wait for their slowest thread, and a thread more than the quota
    pays for is throttled for the rest of each scheduling period.
    """
    cores = len(os.sched_getaffinity(0))
    quota = cgroup_cores(root)
    return cores if quota is None else max(1, min(cores, int(quota)))


def cgroup_cores(root: Path = Path("/")) -> float | None:
    """The smallest CPU quota of this process's cgroup and its ancestors in cores, or None without one."""
    return min((c for c in map(_quota_of, _cgroup_folders("cpu", root)) if c is not None), default=None)


def available_memory(root: Path = Path("/")) -> int:
    """Bytes this process can still take before the kernel kills for them: the machine's, and its cgroups'."""
    lines = (line.split() for line in _read(root / "proc/meminfo").splitlines())
    machines = [int(words[1]) << 10 for words in lines if words[0] == "MemAvailable:"]
    cgroups = (_memory_left(folder) for folder in _cgroup_folders("memory", root))
    return min([*machines, *(left for left in cgroups if left is not None)], default=1 << 62)


def _memory_left(folder: Path) -> int | None:
    """Below this cgroup's limit; pages of files that were read count as free."""
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
    """Where this process's cgroup and its ancestors keep a controller's files, of either version."""
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
    """The processor's name, and which of the instructions that matter for training it has."""
    flags = cpu_flags()
    return {
        "name": _cpuinfo().get("model name", "unknown"),
        "instructions": [name for name in CPU_INSTRUCTIONS if name in flags],
    }


def cpu_flags() -> set[str]:
    """Every instruction set that the processor has and the system lets processes use, by Linux's names."""
    return set(_cpuinfo().get("flags", "").split())


def _cpuinfo() -> dict[str, str]:
    lines = (line.split(":", 1) for line in _read(Path("/proc/cpuinfo")).splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in lines}


def cpu_seconds(pid: int) -> float:
    """CPU time that all threads of a process have used; 0 where there is no such process."""
    fields = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


def shared_memory() -> dict[str, int]:
    """Size and free space in bytes of /dev/shm, where Gluon's DataLoader workers pass batches; zeros without one."""
    try:
        shm = os.statvfs("/dev/shm")
    except OSError:
        return {"total_bytes": 0, "free_bytes": 0}
    return {"total_bytes": shm.f_blocks * shm.f_frsize, "free_bytes": shm.f_bavail * shm.f_frsize}


def missing_libraries() -> list[dict[str, str]]:
    """The shared libraries that mxnet and OpenCV need and this machine lacks, with their Debian packages.

    libquadmath.so.0 is not missing where NumPy's wheel has it: `kernels` lends mxnet that.
    """
    import ctypes

    missing = []
    for library, package, needed_by in SHARED_LIBRARIES:
        try:
            ctypes.CDLL(library)
        except OSError:
            if library == QUADMATH and bundled_quadmath() is not None:
                continue
            missing.append({"library": library, "package": package, "needed_by": needed_by})
    return missing


def bundled_quadmath() -> Path | None:
    """The copy of QUADMATH in NumPy's wheel."""
    from importlib.util import find_spec

    numpy = find_spec("numpy")
    folder = Path(numpy.origin).parents[1] / "numpy.libs" if numpy and numpy.origin else Path()
    return next(folder.glob("libquadmath-*.so*"), None)


def installed_wheels() -> dict[str, str]:
    """Version of each installed wheel that matters here, by name."""
    from importlib import metadata

    versions = {}
    for name in WHEELS:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def wheel_conflicts(wheels: dict[str, str] | None = None) -> list[str]:
    """What is wrong with the installed set of wheels: a sentence each, with the command that cures it."""
    wheels = installed_wheels() if wheels is None else wheels
    return _mxnet_conflicts(wheels) + _numpy_conflicts(wheels) + _opencv_conflicts(wheels)


def _mxnet_conflicts(wheels: dict[str, str]) -> list[str]:
    found = []
    if "mxnet" in wheels and "mxnet-cu112" in wheels:
        found.append(
            "mxnet and mxnet-cu112 overwrite each other in one folder: "
            "pip uninstall -y mxnet mxnet-cu112, then install the one you want, [cpu] or [cu112]"
        )
    if "mxnet" not in wheels and "mxnet-cu112" not in wheels:
        found.append(
            "no mxnet is installed: pip install '.[cpu]' (or '.[cu112]' for GPUs) in mxtrain's checkout"
        )
    cudnn = wheels.get("nvidia-cudnn-cu11", "8")
    if "mxnet-cu112" in wheels and _version(cudnn) >= (9,):
        found.append(
            f"nvidia-cudnn-cu11 {cudnn} is too new, mxnet-cu112 is linked to cuDNN 8: "
            "pip install nvidia-cudnn-cu11==8.9.6.50"
        )
    if "gluoncv" not in wheels:
        found.append(
            "gluoncv is not installed: pip install gluoncv==0.10.5.post0 'numpy<2' 'opencv-python<4.12'"
        )
    return found


def _numpy_conflicts(wheels: dict[str, str]) -> list[str]:
    if "numpy" not in wheels:
        return ["numpy is not installed: pip install 'numpy>=1.23.5,<2'"]
    if not (1, 23, 5) <= _version(wheels["numpy"]) < (2,):
        age = "new" if _version(wheels["numpy"]) >= (2,) else "old"
        return [f"numpy {wheels['numpy']} is too {age} for mxnet 1.9.1: pip install 'numpy>=1.23.5,<2'"]
    return []


def _opencv_conflicts(wheels: dict[str, str]) -> list[str]:
    install = "pip install 'opencv-python>=4.10,<4.12' 'numpy<2'"
    present = [name for name in OPENCV_WHEELS if name in wheels]
    if not present:
        return [f"opencv-python is not installed: {install}"]
    if len(present) > 1:
        # Removing one takes files of the other along, so all go before one comes back.
        return [
            f"{' and '.join(present)} overwrite each other in one cv2 folder: "
            f"pip uninstall -y {' '.join(present)} && {install}"
        ]
    name, version = present[0], wheels[present[0]]
    remove = "" if name == "opencv-python" else f"pip uninstall -y {name} && "
    if _version(version) < (4, 10):
        return [f"{name} {version} decodes JPEGs at half speed: {remove}{install}"]
    if _version(version) >= (4, 12):
        return [f"{name} {version} needs NumPy 2, which mxnet does not work with: {remove}{install}"]
    return []


def gpus() -> dict[str, Any]:
    """`devices` (index, name, capability, memory_bytes) as the CUDA driver lists them, and `reason` if none.

    Asked in a child process: a sick driver can hang or crash in cuInit, and CUDA, once initialised, is
    unusable in every process forked afterwards.
    """
    import json
    import subprocess

    try:
        child = subprocess.run(
            [sys.executable, "-I", "-S", str(Path(__file__).resolve())],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=GPU_PROBE_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return {"devices": [], "reason": f"the CUDA driver did not answer in {GPU_PROBE_SECONDS} s"}
    if child.returncode != 0:
        return {"devices": [], "reason": f"the CUDA driver crashed when asked (exit code {child.returncode})"}
    answer: dict[str, Any] = json.loads(child.stdout)
    return answer


def ask_cuda_driver() -> dict[str, Any]:
    """What `gpus` returns, asked of libcuda in this very process."""
    import ctypes

    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return {"devices": [], "reason": "no NVIDIA driver (libcuda.so.1) on this machine"}
    code = cuda.cuInit(0)
    if code != 0:
        return {"devices": [], "reason": f"the CUDA driver found no usable GPU (cuInit returned {code})"}
    count = ctypes.c_int()
    cuda.cuDeviceGetCount(ctypes.byref(count))
    devices = []
    for index in range(count.value):
        device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        name, memory = ctypes.create_string_buffer(256), ctypes.c_size_t()
        cuda.cuDeviceGet(ctypes.byref(device), index)
        cuda.cuDeviceGetName(name, len(name), device)
        cuda.cuDeviceGetAttribute(ctypes.byref(major), 75, device)  # COMPUTE_CAPABILITY_MAJOR
        cuda.cuDeviceGetAttribute(ctypes.byref(minor), 76, device)  # COMPUTE_CAPABILITY_MINOR
        cuda.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
        devices.append(
            {
                "index": index,
                "name": name.value.decode(errors="replace"),
                "capability": [major.value, minor.value],
                "memory_bytes": memory.value,
            }
        )
    return {"devices": devices, "reason": "" if devices else "the CUDA driver lists no GPU"}


def gpu_problem(index: int) -> str | None:
    """Why `gpu:index` cannot train here and what to do, in one sentence; None where it can."""
    wheels = installed_wheels()
    if "mxnet-cu112" not in wheels:
        return (
            f"gpu:{index} needs MXNet's CUDA build and mxnet-cu112 is not installed: use --devices cpu, "
            "or pip uninstall -y mxnet && pip install '.[cu112]' in mxtrain's checkout"
        )
    return device_problem(index, gpus())


def device_problem(index: int, found: dict[str, Any]) -> str | None:
    """As `gpu_problem`, with the CUDA wheel installed and the GPUs already listed."""
    devices = found["devices"]
    if not devices:
        return f"gpu:{index} cannot be used, {found['reason']}: install NVIDIA's driver, or use --devices cpu"
    if index >= len(devices):
        known = ", ".join(f"gpu:{device['index']} ({device['name']})" for device in devices)
        return f"gpu:{index} does not exist, this machine has {known}: name one of these"
    major, minor = devices[index]["capability"]
    # The wheel holds machine code for sm_50, 60, 70, 80 and 86, and no PTX that a driver could translate.
    if not 5 <= major <= 8:
        return (
            f"gpu:{index} ({devices[index]['name']}) has compute capability {major}.{minor} and mxnet-cu112 "
            "only holds code for 5.0 to 8.9: use an older GPU (V100, T4, A100, A10, L4, RTX 30xx or 40xx), "
            "or --devices cpu"
        )
    return None


def _version(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: '4.10.0.84' and '2.0.0rc1' as (4, 10, 0, 84) and (2, 0)."""
    numbers = []
    for part in text.split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


if __name__ == "__main__":  # `gpus` runs this file as its child process
    import json

    print(json.dumps(ask_cuda_driver()))
