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


def role_commands(port: str, fit_flags: list[str]) -> list[list[str]]:
    """The commands of the four roles, as they would be given on four hosts."""
    given = ["--root", f"127.0.0.1:{port}", "-n", "2", "-s", "1"]
    indices: list[list[str]] = [[], [], ["--index", "0"], ["--index", "1"]]
    return [["launch/ps.sh", role, *given, *index, "--", *fit_flags] for role, index in zip(ROLES, indices)]
