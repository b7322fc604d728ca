"""Explanation of an import of mxnet or gluoncv that failed: one sentence with the command that helps.

Owns the words and the error; what is missing or in conflict is found out by `core/system/`.
"""

from __future__ import annotations

import contextlib
import importlib
from typing import Iterator

from mxtrain.core.errors import OutOfMemory, UsageError
from mxtrain.core.system import libraries, out_of_memory, wheels


class CannotImport(ImportError):
    """mxnet or gluoncv does not import on this machine; the message says why and what to do."""


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """A block in which an error of a broken wheel becomes one sentence; still an ImportError, for callers to catch."""
    try:
        yield
    except CannotImport:
        raise
    except (ImportError, OSError, AttributeError) as error:
        if out_of_memory.shortage_in(error):
            raise OutOfMemory(error) from error
        raise CannotImport(why_not(error)) from error


def why_not(error: BaseException) -> str:
    """Return one sentence for a failed import: what is missing or in conflict, and the command that helps."""
    name = libraries.name_in(error)
    if name == "libcuda.so.1":
        return (
            "mxnet-cu112 needs NVIDIA's driver (libcuda.so.1) and this machine has none: install the driver, "
            f"or for CPUs {wheels.install_command('cpu')}"
        )
    cure = libraries.cure(name)
    if cure:
        return f"{name} is missing on this machine: {cure}"
    if name and "mxnet-cu112" in wheels.installed():
        return f"mxnet-cu112 finds no {name}: {wheels.install_command('cu112')} brings CUDA 11"
    conflicts = wheels.conflicts()
    if conflicts:
        return conflicts[0]
    reason = (str(error).splitlines() or [""])[0]
    return f"mxnet does not import here ({type(error).__name__}: {reason}): see python -m mxtrain.doctor"


def require_opencv() -> None:
    """Raise CannotImport where OpenCV does not load."""
    try:
        importlib.import_module("mxtrain.core.opencv")
    except UsageError as error:
        raise CannotImport(str(error)) from error
