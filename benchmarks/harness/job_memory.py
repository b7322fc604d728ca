"""The memory that processes of a job take, by their roles."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from pathlib import Path
from typing import Sequence

from benchmarks.harness.processes import ROOT

POLL_SECONDS = 0.1


def largest(line: Sequence[str], deadline_seconds: float) -> dict[str, int]:
    """Run a job; return by role the most bytes that a process of it held, and that a server mapped of files."""
    most = {"worker": 0, "server": 0, "mapped": 0}
    deadline = time.monotonic() + deadline_seconds
    with subprocess.Popen(
        line, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as job:
        try:
            while job.poll() is None and time.monotonic() < deadline:
                for name, num_bytes in _processes(job.pid):
                    most[name] = max(most.get(name, 0), num_bytes)
                time.sleep(POLL_SECONDS)
        finally:
            job.terminate()
        assert job.stderr is not None
        errors = job.stderr.read()
    if job.returncode:
        raise SystemExit(f"{' '.join(line)}:\n{errors}")
    return most


def _processes(launcher: int) -> list[tuple[str, int]]:
    """Return the roles of a launcher's processes, with the most bytes that each has held."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            status = dict(line.split(":", 1) for line in (path / "status").read_text().splitlines())
            if int(status["PPid"]) == launcher:
                environment = (path / "environ").read_bytes().split(b"\0")
                for role in (
                    os.fsdecode(each[10:]) for each in environment if each.startswith(b"DMLC_ROLE=")
                ):
                    found.append((role, 1024 * int(status["VmHWM"].split()[0])))
                    found += [("mapped", mapped_bytes(path))] if role == "server" else []
    return found


def mapped_bytes(process: Path) -> int:
    """Return how much a process has mapped of files without names, shared with the system's cache."""
    total = 0
    for line in (process / "maps").read_text().splitlines():
        addresses, permissions, *_ = line.split(maxsplit=2)
        if line.endswith("(deleted)") and permissions.endswith("s"):
            start, end = (int(each, 16) for each in addresses.split("-"))
            total += end - start
    return total
