"""The GPUs of this machine, and whether the installed MXNet can train on them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from mxtrain.core.system import wheels

PROBE_SECONDS = 20
PROBE = Path(__file__).resolve().with_name("gpu_probe.py")


def detect() -> dict[str, Any]:
    """Return `devices` (index, name, capability, memory_bytes) as the CUDA driver lists them, and `reason` if none.

    Asked in a child process: a sick driver can hang or crash in cuInit, and CUDA, once initialised, is
    unusable in every process forked afterwards.
    """
    try:
        child = subprocess.run(
            [sys.executable, "-I", "-S", str(PROBE)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PROBE_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return {"devices": [], "reason": f"the CUDA driver did not answer in {PROBE_SECONDS} s"}
    if child.returncode != 0:
        return {"devices": [], "reason": f"the CUDA driver crashed when asked (exit code {child.returncode})"}
    answer: dict[str, Any] = json.loads(child.stdout)
    return answer


def problem(index: int) -> str | None:
    """Return one sentence on why `gpu:index` cannot train here and what to do; None where it can."""
    if "mxnet-cu112" not in wheels.installed():
        return (
            f"gpu:{index} needs MXNet's CUDA build and mxnet-cu112 is not installed: use --devices cpu, "
            f"or {wheels.install_command('cu112')}"
        )
    return device_problem(index, detect())


def device_problem(index: int, detected: dict[str, Any]) -> str | None:
    """Return the same as `problem`, for GPUs that `detect` found and with the CUDA wheel installed."""
    devices = detected["devices"]
    if not devices:
        return (
            f"gpu:{index} cannot be used, {detected['reason']}: install NVIDIA's driver, or use --devices cpu"
        )
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
