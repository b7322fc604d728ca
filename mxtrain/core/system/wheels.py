"""The wheels that matter here: which are installed, which are in each other's way, and what the engine needs.

Only the standard library is imported, and nothing is changed: `doctor/machine/install.py` installs.
"""

from __future__ import annotations

import mxtrain
from mxtrain.core.system import distributions

HEADLESS = ("opencv-python-headless", "opencv-contrib-python-headless")
OPENCV_WHEELS = ("opencv-python", "opencv-contrib-python", *HEADLESS)
WHEELS = ("mxnet", "mxnet-cu112", "gluoncv", "numpy", *OPENCV_WHEELS, "simplejpeg", "nvidia-cudnn-cu11")

# Each installs the same folder `mxnet/`. The extras of pyproject.toml are these.
ENGINES = {
    "cpu": ("mxnet==1.9.1",),
    "cu112": (
        "mxnet-cu112==1.9.1",
        "nvidia-cuda-runtime-cu11==11.8.89",
        "nvidia-cuda-nvrtc-cu11==11.8.89",
        "nvidia-cublas-cu11==11.11.3.6",
        "nvidia-cudnn-cu11==8.9.6.50",
        "nvidia-cufft-cu11==10.9.0.58",
        "nvidia-curand-cu11==10.3.0.86",
        "nvidia-cusolver-cu11==11.4.1.48",
        "nvidia-nvtx-cu11==11.8.86",
        "nvidia-nccl-cu11==2.21.5",
        "nvidia-ml-py>=11",  # the use of GPUs, and what links them
    ),
}
GLUONCV = "gluoncv==0.10.5.post0"
NUMPY, OPENCV = "numpy>=1.23.5", "opencv-python>=4.10"


def installed() -> dict[str, str]:
    """Return the version of each installed wheel that matters here, by name."""
    found = distributions.installed()
    return {name: found[name] for name in WHEELS if name in found}


def versions() -> dict[str, str]:
    """Return the versions of mxtrain and of installed wheels: another OpenCV, for instance, gives other pixels."""
    found = installed()
    for name in set(OPENCV_WHEELS) & found.keys():  # one for desktops and one without give the same pixels
        found["opencv-python"] = found.pop(name)
    return {"mxtrain": mxtrain.__version__, **found}


def install_command(engine: str | None = None) -> str:
    """Return the command that installs an engine, by default the one that is there, with all that it needs."""
    engine = engine or ("cu112" if "mxnet-cu112" in installed() else "cpu")
    return f"python -m mxtrain.doctor --install {engine}"


def conflicts(wheels: dict[str, str] | None = None) -> list[str]:
    """Return a sentence, with a command, for each conflict among the wheels (default: the installed ones)."""
    wheels = installed() if wheels is None else wheels
    return _mxnet_conflicts(wheels) + _numpy_conflicts(wheels) + _opencv_conflicts(wheels)


def _mxnet_conflicts(wheels: dict[str, str]) -> list[str]:
    problems = []
    if "mxnet" in wheels and "mxnet-cu112" in wheels:
        problems.append(
            "mxnet and mxnet-cu112 overwrite each other in one folder: "
            f"{install_command('cpu')} (or cu112) removes both and installs the one you name"
        )
    if "mxnet" not in wheels and "mxnet-cu112" not in wheels:
        problems.append(f"no mxnet is installed: {install_command('cpu')} (or cu112 for NVIDIA GPUs)")
    cudnn = wheels.get("nvidia-cudnn-cu11", "8")
    if "mxnet-cu112" in wheels and version(cudnn) >= (9,):
        problems.append(
            f"nvidia-cudnn-cu11 {cudnn} is too new, mxnet-cu112 is linked to cuDNN 8: "
            "pip install nvidia-cudnn-cu11==8.9.6.50"
        )
    if "gluoncv" not in wheels:
        problems.append(f"gluoncv is not installed: {install_command()}")
    return problems


def _numpy_conflicts(wheels: dict[str, str]) -> list[str]:
    if "numpy" not in wheels:
        return [f"numpy is not installed: {install_command()}"]
    if version(wheels["numpy"]) < (1, 23, 5):
        return [f"numpy {wheels['numpy']} is too old: pip install '{NUMPY}'"]
    return []


def _opencv_conflicts(wheels: dict[str, str]) -> list[str]:
    present = [name for name in OPENCV_WHEELS if name in wheels]
    if not present:
        return [f"opencv-python is not installed: pip install '{OPENCV}'"]
    if len(present) > 1:
        # Removing one takes files of the other along, so all go before one comes back.
        return [
            f"{' and '.join(present)} overwrite each other in one cv2 folder: "
            f"pip uninstall -y {' '.join(present)} && pip install '{OPENCV}'"
        ]
    name, found = present[0], wheels[present[0]]
    if version(found) < (4, 10):
        return [f"{name} {found} decodes JPEGs at half speed: pip install --upgrade '{name}>=4.10'"]
    return []


def version(text: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: '4.10.0.84' and '2.0.0rc1' as (4, 10, 0, 84) and (2, 0)."""
    numbers = []
    for part in text.split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)
