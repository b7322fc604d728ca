"""The shared libraries of the system that mxnet and OpenCV need and a slim Debian lacks.

Owns finding what is missing, lending mxnet the copies that other wheels bring along, and loading their CUDA 11.
"""

from __future__ import annotations

import ctypes
import importlib.util
import logging
import re
import sys
import tempfile
from pathlib import Path

from mxtrain.core.system import wheels

logger = logging.getLogger(__name__)

# The library, the Debian package that has it, and who needs it.
GOMP, QUADMATH = LENT = "libgomp.so.1", "libquadmath.so.0"
NEEDED = (
    (GOMP, "libgomp1", "mxnet"),
    (QUADMATH, "libquadmath0", "mxnet"),
    ("libGL.so.1", "libgl1", "opencv-python"),
    ("libgthread-2.0.so.0", "libglib2.0-0", "opencv-python"),
)
# Each is linked only to those before it.
CUDA_LIBRARIES = (
    "cuda_nvrtc/lib/libnvrtc.so.11.2",
    "cuda_runtime/lib/libcudart.so.11.0",
    "cublas/lib/libcublasLt.so.11",
    "cublas/lib/libcublas.so.11",
    "cufft/lib/libcufft.so.10",
    "curand/lib/libcurand.so.10",
    "cusolver/lib/libcusolver.so.11",
    "cudnn/lib/libcudnn.so.8",
    "nvtx/lib/libnvToolsExt.so.1",
    "nccl/lib/libnccl.so.2",
)
# Wheels on PyPI with a copy, for machines without root.
WHEELS_WITH_A_COPY = {GOMP: "scikit-learn", QUADMATH: "scipy"}


def missing() -> list[dict[str, str]]:
    """Return the libraries that this machine lacks and no wheel can lend, each with its package and who needs it."""
    needs_a_display = not wheels.installed().keys() & set(wheels.HEADLESS)
    return [
        {"library": library, "package": package, "needed_by": needed_by}
        for library, package, needed_by in NEEDED
        if (needed_by == "mxnet" or needs_a_display)
        and not _loads(library)
        and copy_in_a_wheel(library) is None
    ]


def cure(library: str) -> str:
    """Return what to do about a missing library, as a clause with a command; an empty string for an unknown one."""
    package = {name: package for name, package, _ in NEEDED}.get(library)
    if package is None:
        return ""
    lacking = [each["package"] for each in missing()]
    command = f"apt-get install {' '.join(lacking if package in lacking else [package])}"
    wheel = WHEELS_WITH_A_COPY.get(library)
    return command + (f", or without root pip install {wheel}, which brings a copy" if wheel else "")


def name_in(error: BaseException) -> str:
    """Return the library that the dynamic loader missed, by the text of its error; an empty string if none."""
    found = re.search(r"(lib[^\s:]+\.so[.\d]*): cannot open shared object file", str(error))
    return found.group(1) if found else ""


def lend() -> None:
    """Load what mxnet is linked to and the system lacks from the wheels that have a copy.

    The loader takes an already loaded library for the one it looks for only if the SONAME inside is the same, and
    the wheels' copies were renamed (libquadmath-96973f99.so.0.0.0), inside as well as outside. So load a copy with
    its old, shorter name put back; the file may go as soon as it is mapped.
    """
    for library in LENT:
        bundled = None if _loads(library) else copy_in_a_wheel(library)
        if bundled is None:
            continue
        renamed, original = bundled.name.encode(), library.encode()
        with tempfile.NamedTemporaryFile(suffix=".so") as copy:
            copy.write(bundled.read_bytes().replace(renamed, original.ljust(len(renamed), b"\0")))
            copy.flush()
            ctypes.CDLL(copy.name, mode=ctypes.RTLD_GLOBAL)
        logger.debug("%s taken from %s", library, bundled)


def preload_cuda() -> None:
    """Load CUDA 11 from the nvidia wheels; otherwise mxnet-cu112 looks for a CUDA of the system."""
    packages = importlib.util.find_spec("nvidia")
    folders = list(packages.submodule_search_locations or []) if packages else []
    for library in CUDA_LIBRARIES:
        path = next((Path(folder) / library for folder in folders if (Path(folder) / library).exists()), None)
        if path is None:
            logger.debug("%s is in no nvidia wheel: left to the system", library)
            continue
        try:
            ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            logger.debug("%s does not load: %s", path, error)


def copy_in_a_wheel(library: str) -> Path | None:
    """Return the copy of a library that mxnet may be lent, if some installed wheel has one."""
    if library not in LENT:
        return None
    pattern = library.replace(".so", "-*.so").rstrip(".0123456789") + "*"
    found = (path for folder in sys.path if folder for path in sorted(Path(folder).glob(f"*.libs/{pattern}")))
    return next(found, None)


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
