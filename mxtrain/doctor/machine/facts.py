"""Facts about this machine and environment, as plain JSON values; what they mean is `machine_advice.py`'s."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sysconfig
from pathlib import Path
from typing import Any

import mxtrain
from mxtrain import native
from mxtrain.core.system import gpu_links, gpus, kernels, libraries, machine, wheels
from mxtrain.doctor.machine import kernel_speed, machine_advice, mxnet_check
from mxtrain.doctor.machine.machine_advice import CLUSTER_VARIABLES


def examine() -> dict[str, Any]:
    """Return every fact, whether this machine can train, and recommendations."""
    facts: dict[str, Any] = {
        "versions": {
            "mxtrain": mxtrain.__version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            **wheels.installed(),
        },
        "mxnet": mxnet_check.check(),
        "cpu": machine.cpu(),
        "kernels": kernel_facts(),
        "threads": threads(),
        "gpu": gpus.detect(),
        "shared_memory": machine.shared_memory(),
        "native_decoder": native.crop is not None,
        "c_compiler": shutil.which("cc") is not None or shutil.which("gcc") is not None,
        "python_headers": (Path(sysconfig.get_path("include")) / "Python.h").is_file(),
        "ports": ports(),
        "wheel_conflicts": wheels.conflicts(),
        "missing_libraries": libraries.missing(),
    }
    facts["gpu_links"] = gpu_links.examine() if facts["gpu"]["devices"] else None
    facts["trainable"] = facts["mxnet"]["error"] is None
    facts["speed"] = kernel_speed.examine() if facts["trainable"] else None
    facts["recommendations"] = machine_advice.recommendations(facts)
    return facts


def kernel_facts() -> dict[str, Any]:
    """Return the kernels of MXNet's libraries, OpenBLAS's own choice, and the reason for having no bfloat16, if so."""
    return {
        **kernels.used(),
        "openblas_by_itself": kernels.openblas().own,
        "bf16_problem": kernels.bf16_problem(),
        "no_amx": kernels.amx_problem(),
        "variables": {name: os.environ[name] for name in kernels.VARIABLES if os.environ.get(name)},
    }


def threads() -> dict[str, Any]:
    """Return the cores of the machine, those that this process may use, its load, and the user's variables."""
    return {
        "logical_cores": os.cpu_count(),
        "usable_cores": machine.usable_cores(),
        "cgroup_cores": machine.cgroup_cores(),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS"),
        "MXNET_OMP_MAX_THREADS": os.environ.get("MXNET_OMP_MAX_THREADS"),
        "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY"),
        "load": os.getloadavg()[0],
    }


def ports() -> dict[str, Any]:
    """Return a free loopback port, or why none can be bound, and the variables that would configure a cluster."""
    found: dict[str, Any] = {"loopback": True, "free_port": None, "error": None}
    try:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            probe.listen(1)
            found["free_port"] = probe.getsockname()[1]
    except OSError as error:
        found.update(loopback=False, error=str(error))
    found["variables"] = {name: os.environ[name] for name in CLUSTER_VARIABLES if name in os.environ}
    return found
