"""Processes, ports, files and shared memory that a job leaves behind.

They are found by a mark in the environment, which each process passes on to all that it starts.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from tests.support.processes.sockets import listeners

MARK = "MXTRAIN_FAULTS"
LEAVE_SECONDS = 3.0
SHARED_MEMORY = Path("/dev/shm")
OF_JOBLIB = (
    "sem.loky-"  # semaphores of scikit-learn's programs, which no job of ours runs and other tests may
)


class Traces:
    """The traces of the processes that are started with `environment` in FOLDER."""

    def __init__(self, folder: Path):
        self._scratch = folder / "tmp"
        self._scratch.mkdir(parents=True, exist_ok=True)
        self._before = set(SHARED_MEMORY.iterdir())
        self._ports: set[int] = set()
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("DMLC_")}
        self.environment.update({MARK: str(folder), "TMPDIR": str(self._scratch)})

    def pids(self) -> list[int]:
        """The processes that still run, or are frozen."""
        mark = f"{MARK}={self.environment[MARK]}\0".encode()
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if mark in path.read_bytes():
                    found.append(int(path.parent.name))
        return found

    def record_ports(self) -> None:
        """Record the ports on which they listen now."""
        for pid in self.pids():
            with contextlib.suppress(OSError):
                self._ports.update(listener.port for listener in listeners(pid))

    def left_behind(self) -> list[str]:
        """Wait a little and return what is still there after all should have ended; nothing should be."""
        end = time.monotonic() + LEAVE_SECONDS
        while (found := self._found()) and time.monotonic() < end:
            time.sleep(0.05)
        return found  # and not what a second look finds: memory that another program has just made

    def _found(self) -> list[str]:
        return [
            *(f"process {pid} {_name(pid)}" for pid in self.pids()),
            *(f"port {port}" for port in sorted(self._ports & _open_ports())),
            *(str(path) for path in self._scratch.rglob("*")),
            *(str(path) for path in set(SHARED_MEMORY.iterdir()) - self._before if _is_left(path)),
        ]

    def kill(self) -> None:
        """Kill all processes."""
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _is_left(path: Path) -> bool:
    """True for memory that no process has mapped: other programs of this machine come and go, and make folders."""
    if not path.is_file() or path.name.startswith(OF_JOBLIB):
        return False
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            if str(path) in maps.read_text():
                return False
    return True


def _open_ports() -> set[int]:
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {int(line[1].split(":")[1], 16) for line in lines if line[3] == "0A"}


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        environment = Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
        return next((line for line in environment if line.startswith("MXTRAIN_NODE=")), "")
    return ""
