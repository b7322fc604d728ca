"""The words by which the user started this process: for usage lines, and for advice to be typed as it stands."""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
from pathlib import Path

PACKER = "im2rec_wrapper"  # as it is installed; in a checkout it is in tools/
_typed: list[str] = []  # what `run` was told


def run(module: str, typed: str, arguments: list[str]) -> None:
    """Be `python -m module arguments`, for an installed command that the user knows as `typed`: `mxtrain fit`."""
    _typed[:] = [typed]
    sys.argv[1:] = arguments
    sys.path[0] = os.getcwd()  # as python -m has it, for flags that name the user's code
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def typed(otherwise: str) -> str:
    """Return what the user typed, if that was a command that called `run`."""
    return _typed[0] if _typed else otherwise


def packer() -> str:
    """Return what the packer's commands follow: a name that this process was started by, or else that works here."""
    if _typed:
        return _typed[0].split()[0]
    main = getattr(sys.modules["__main__"], "__spec__", None)
    started = main.name.replace(".__main__", "") if main else ""
    return f"python -m {started if started.endswith(PACKER) else packer_module()}"


def packer_module() -> str:
    """Return the packer's module: its name in a checkout where this folder is one, or else as it is installed."""
    is_installed = importlib.util.find_spec(PACKER) is not None
    return PACKER if is_installed and Path.cwd() != Path(__file__).resolve().parents[2] else f"tools.{PACKER}"
