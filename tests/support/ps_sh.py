"""Roles of a cluster started by launch/ps.sh."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import Iterator

from tests.support.commands import ROOT

ROLES = ["scheduler", "server", "worker", "worker"]
Run = subprocess.Popen


@contextlib.contextmanager
def all_started(lines: list[list[str]], environments: list[dict[str, str]]) -> Iterator[list[Run[str]]]:
    """These commands, all at once; none outlives the block."""
    runs: list[Run[str]] = []
    try:
        for line, more in zip(lines, environments):
            environment = {**os.environ, "PYTHON": sys.executable, **more}
            output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
            runs.append(Run(line, cwd=ROOT, env=environment, text=True, **output))  # type: ignore[call-overload]
        yield runs
    finally:
        for run in runs:
            run.kill()
            run.wait(10)
