"""Folders that take a while to make, made once for all processes of a test run."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Callable

import pytest


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """The folder `name` of this test run, filled by `make` in the process that comes first; tests only read it."""
    base = factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = base / name
    with (base / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (base / f"{name}.made").exists():
            folder.mkdir()
            make(folder)
            (base / f"{name}.made").touch()
    return folder
