"""Installs the engine and GluonCV with what they truly need into this environment, for `doctor --install`.

Their wheels ask for more than they use, and for NumPy below 2; so pip gets them without their dependencies, and a step
of training proves that it was enough. Owns pip's command lines and OpenCV's choice of wheel; no training command
installs anything.
"""

from __future__ import annotations

import platform
import subprocess
import sys
from typing import Callable

from mxtrain.core.errors import UsageError
from mxtrain.core.system import libraries, wheels
from mxtrain.doctor.machine import mxnet_check

PIP_SECONDS = 3600  # cu112 is 3 GB
# What mxnet and gluoncv import, and all that a step of training needs.
IMPORTED = ("requests>=2.20", "graphviz>=0.8.1", "scipy", "Pillow", "portalocker", "tqdm")

Say = Callable[[str], None]


def install(engine: str, say: Say) -> str:
    """Install `cpu` or `cu112`, and return a sentence on what trains here; UsageError where something does not work."""
    before = wheels.installed()
    engines = {name: requirements[0].partition("==")[0] for name, requirements in wheels.ENGINES.items()}
    present = [wheel for wheel in engines.values() if wheel in before]
    if present not in ([], [engines[engine]]):  # in one folder: to remove one takes files of the other along
        say(f"removing {' and '.join(present)}: only one engine can be installed")
        _pip("uninstall", "--yes", *present)
    _pip("install", "--no-deps", *wheels.ENGINES[engine], wheels.GLUONCV)
    _pip("install", *requirements(before))
    _replace_opencv_where_it_does_not_load(say)
    for lacking in (each["library"] for each in libraries.missing() if each["needed_by"] == "mxnet"):
        wheel = libraries.WHEELS_WITH_A_COPY[lacking]
        say(f"{lacking} is missing on this machine: installing {wheel}, which brings a copy")
        _pip("install", wheel)
    checked = mxnet_check.check()
    if checked["error"]:
        raise UsageError(f"installed, but a step of training fails: {checked['error']}")
    versions = wheels.installed()
    return (
        f"a step of training works: {engines[engine]} {versions[engines[engine]]}, NumPy {versions['numpy']}, "
        f"Python {platform.python_version()}"
    )


def requirements(installed: dict[str, str]) -> list[str]:
    """Return what pip is asked for beside the engine; a NumPy and an OpenCV that will do stay as they are."""
    wanted = [*IMPORTED, wheels.NUMPY]
    if wheels.version(installed.get("numpy", "0")) >= (1, 23, 5):
        wanted[-1] = f"numpy=={installed['numpy']}"  # other packages of this environment were built for it
    present = [name for name in wheels.OPENCV_WHEELS if name in installed]
    return [*wanted, *(present or [wheels.OPENCV])]


def _replace_opencv_where_it_does_not_load(say: Say) -> None:
    """Put the headless wheel of the same version in the place of one that needs libraries of a desktop."""
    error = _opencv_error()
    present = {name: version for name, version in wheels.installed().items() if name in wheels.OPENCV_WHEELS}
    windowed = [name for name in present if name not in wheels.HEADLESS]
    if not error or not windowed:
        return
    headless = [f"{name}-headless=={present[name]}" for name in windowed]
    say(f"{' and '.join(windowed)} does not load here ({error}): {' and '.join(headless)} takes its place")
    _pip("uninstall", "--yes", *present)
    _pip("install", "--no-deps", *headless)
    error = _opencv_error()
    if error:
        raise UsageError(f"{headless[0]} does not load either: {error}")


def _opencv_error() -> str:
    """Return the last line of what a fresh process says when it imports OpenCV; an empty string if all is well."""
    line = [sys.executable, "-c", "import cv2"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=mxnet_check.CHECK_SECONDS)
    if done.returncode == 0:
        return ""
    return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]


def _pip(*words: str) -> None:
    """Run pip in this environment; UsageError with its own last error where it fails."""
    line = [sys.executable, "-m", "pip", words[0], "--quiet", "--disable-pip-version-check", *words[1:]]
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=PIP_SECONDS)
    except subprocess.TimeoutExpired:
        raise UsageError(f"pip {' '.join(words)}: not done within {PIP_SECONDS} s") from None
    if done.returncode == 0:
        return
    lines = done.stderr.strip().splitlines() or done.stdout.strip().splitlines() or ["it says nothing"]
    errors = [each.partition("ERROR: ")[2] for each in lines if "ERROR: " in each]
    reason = (errors or lines)[-1]
    if "No module named pip" in reason:
        reason = f"there is no pip in this environment: {sys.executable} -m ensurepip"
    elif "Retrying (Retry" in done.stderr:
        reason = f"no package index was reached ({reason}): look at the network and pip's proxy settings"
    raise UsageError(f"pip {' '.join(words)}: {reason}")
