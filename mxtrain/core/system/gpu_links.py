"""The ways between GPUs and this machine as NVIDIA's management library tells them: PCIe, NVLink, errors, throttling.

Owns the questions, asked through nvidia-ml-py in a child process, for a sick driver can hang. Numbers are nvidia-smi's,
by place on the bus, which are not always those of `--devices gpu:N`: CUDA counts the fastest first. What the answers
mean is `doctor/machine/gpu_advice.py`'s. Tested against a stand-in for the library only.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Callable

SECONDS = 20
LEVELS = {
    0: "one board",
    10: "one PCIe switch",
    20: "PCIe switches",
    30: "one host bridge",
    40: "one CPU",
    50: "CPUs",
}
REASONS = {
    0x1: "idle",
    0x2: "clocks set by the user",
    0x4: "power limit",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "heat",
    0x40: "heat (hardware)",
    0x80: "power brake",
    0x100: "display",
}


def examine() -> dict[str, Any]:
    """Return `devices` and `pairs` of them; `error` is None, or why nothing is known."""
    line = [sys.executable, "-m", __name__]
    try:
        child = subprocess.run(line, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return {"devices": [], "pairs": [], "error": f"NVIDIA's driver did not answer in {SECONDS} s"}
    if child.returncode:
        last = (child.stderr.strip().splitlines() or [f"exit code {child.returncode}"])[-1]
        return {"devices": [], "pairs": [], "error": f"NVIDIA's management library failed: {last}"}
    answer: dict[str, Any] = json.loads(child.stdout)
    return answer


def read_links() -> dict[str, Any]:
    """Return what `examine` does, asked in this very process."""
    try:
        import pynvml
    except ImportError:
        return {
            "devices": [],
            "pairs": [],
            "error": "nvidia-ml-py is not installed: pip install nvidia-ml-py",
        }
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return {"devices": [], "pairs": [], "error": f"no answer from NVIDIA's management library: {error}"}
    handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    devices = [_device(pynvml, index, handle) for index, handle in enumerate(handles)]
    pairs = [
        {
            **{"one": one, "other": other, "over": _level(pynvml, handles[one], handles[other])},
            "nvlinks": nvlinks_between(devices[one], devices[other]),
        }
        for one in range(len(handles))
        for other in range(one + 1, len(handles))
    ]
    return {"devices": devices, "pairs": pairs, "error": None}


def nvlinks_between(one: dict[str, Any], other: dict[str, Any]) -> int:
    """Return the number of NVLinks that are up from one GPU to the other, or from both to the same switches."""
    ends = [[link["to"] for link in each["nvlinks"] if link["active"]] for each in (one, other)]
    direct = ends[0].count(other["bus"])
    return direct or min(sum(end in ends[1] for end in ends[0]), sum(end in ends[0] for end in ends[1]))


def _device(nvml: Any, index: int, handle: Any) -> dict[str, Any]:
    """Return what is known of a GPU; None for what it or its driver does not tell."""
    bits = _query(nvml, nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
    mode = _query(nvml, nvml.nvmlDeviceGetEccMode, handle)
    return {
        "index": index,
        "name": _text(_query(nvml, nvml.nvmlDeviceGetName, handle)),
        "bus": _bus(_query(nvml, nvml.nvmlDeviceGetPciInfo, handle)),
        "pcie": {
            "generation": _query(nvml, nvml.nvmlDeviceGetCurrPcieLinkGeneration, handle),
            "generation_most": _query(nvml, nvml.nvmlDeviceGetMaxPcieLinkGeneration, handle),
            "width": _query(nvml, nvml.nvmlDeviceGetCurrPcieLinkWidth, handle),
            "width_most": _query(nvml, nvml.nvmlDeviceGetMaxPcieLinkWidth, handle),
        },
        "nvlinks": _nvlinks(nvml, handle),
        "ecc": None if mode is None else bool(mode[0]),
        "ecc_errors": _query(
            nvml,
            nvml.nvmlDeviceGetTotalEccErrors,
            *(handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC),
        ),
        "throttled_by": None if bits is None else [name for bit, name in REASONS.items() if bits & bit],
    }


def _nvlinks(nvml: Any, handle: Any) -> list[dict[str, Any]]:
    """Return the NVLinks that the GPU has, in their order."""
    found = []
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        state = _query(nvml, nvml.nvmlDeviceGetNvLinkState, handle, link)
        if state is None:  # it has no such link, or none at all
            continue
        remote = _query(nvml, nvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link) if state else None
        found.append({"link": link, "active": bool(state), "to": _bus(remote)})
    return found


def _level(nvml: Any, one: Any, other: Any) -> str | None:
    return LEVELS.get(_query(nvml, nvml.nvmlDeviceGetTopologyCommonAncestor, one, other))


def _query(nvml: Any, question: Callable[..., Any], *about: Any) -> Any:
    """Return the answer to a question; None where this GPU or driver has none."""
    try:
        return question(*about)
    except nvml.NVMLError:
        return None


def _bus(info: Any) -> str | None:
    return None if info is None else (_text(info.busId) or "").lower()


def _text(value: Any) -> str | None:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


if __name__ == "__main__":
    print(json.dumps(read_links()))
