"""Lists the GPUs by asking the CUDA driver; `gpus.py` runs this file by itself as a child process.

Imports only the standard library, for it runs under `python -I -S`, where mxtrain is not found.
"""

from __future__ import annotations

import ctypes
import json
from typing import Any


def ask_cuda_driver() -> dict[str, Any]:
    """Return what `gpus.detect` does, asked of libcuda in this very process."""
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


if __name__ == "__main__":
    print(json.dumps(ask_cuda_driver()))
