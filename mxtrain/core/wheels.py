"""The installed wheels that matter here, their conflicts, and the shared libraries that they need.

Only the standard library is imported, and nothing is changed: `kernels.py` and `runtime.py` act on what is found here.
"""

from __future__ import annotations

from pathlib import Path

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


def installed() -> dict[str, str]:
    """Return the version of each installed wheel that matters here, by name."""
    from importlib import metadata

    versions = {}
    for name in WHEELS:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def conflicts(wheels: dict[str, str] | None = None) -> list[str]:
    """Return a sentence, with a command, for each conflict among the wheels (default: the installed ones)."""
    wheels = installed() if wheels is None else wheels
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


def _version(text: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: '4.10.0.84' and '2.0.0rc1' as (4, 10, 0, 84) and (2, 0)."""
    numbers = []
    for part in text.split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)


def missing_libraries() -> list[dict[str, str]]:
    """Return the shared libraries that mxnet and OpenCV need and this machine lacks, with their Debian packages.

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
    """Return the copy of QUADMATH in NumPy's wheel, if there is one."""
    from importlib.util import find_spec

    numpy = find_spec("numpy")
    folder = Path(numpy.origin).parents[1] / "numpy.libs" if numpy and numpy.origin else Path()
    return next(folder.glob("libquadmath-*.so*"), None)
