"""Groups of processes under a supervisor: stand-ins that run and end as a test asks for."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

ROOT = Path(__file__).resolve().parents[3]
NAMES = ["scheduler", "server-0", "worker-0", "worker-1"]

# What a role does in each attempt is a line of Python; `wait` is what a process does that is at work.
ROLE = """
import os, signal, sys, time
from pathlib import Path
from mxtrain.core.die_with_parent import die_with_parent
die_with_parent()
name, attempt, out = os.environ["MXTRAIN_NODE"], int(os.environ["MXTRAIN_GENERATION"]), Path(os.environ["OUT"])
def wait(): time.sleep(30); sys.exit(9)
def stop(code):
    def leave(number, frame):
        print(f"{name} got {signal.Signals(number).name}", flush=True); sys.exit(code)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1): signal.signal(number, leave)
    (out / f"{name}.ready").touch(); wait()
def save(step): (out / "checkpoints" / f"step-{step:08d}").mkdir(parents=True)
def kill(number): os.kill(os.getpid(), number)
def others_leave():
    time.sleep(0.3); print("mxtrain.fit: worker-1 has gone silent", file=sys.stderr); sys.exit(75)
print(f"{name} in attempt {attempt}", flush=True)
exec(sys.argv[1])
"""
GRACE = {
    "death_seconds": 0.7,
    "done_seconds": 1,
    "stop_seconds": 3,
    "kill_seconds": 0.4,
    "stopped_seconds": 1.5,
}
SUPERVISOR = """
import json, sys
from pathlib import Path
from mxtrain.launch.attempt import GracePeriods
from mxtrain.launch.plan import ProcessSpec
from mxtrain.launch.supervisor import RestartPolicy, checkpoints, supervise
out, role, names, codes = Path(sys.argv[1]), sys.argv[2], sys.argv[3].split(), sys.argv[6:]
def group(attempt):
    own, logs = {"MXTRAIN_GENERATION": str(attempt), "OUT": str(out)}, out / "logs"
    return [
        ProcessSpec(name, (sys.executable, "-c", role, code), {**own, "MXTRAIN_NODE": name}, logs / f"{name}.log")
        for name, code in zip(names, codes)
    ]
grace = GracePeriods(**json.loads(sys.argv[5]))
policy = RestartPolicy(lambda: checkpoints(out), int(sys.argv[4]), first_pause_seconds=0.1, grace=grace, out=out)
sys.exit(supervise(group, policy))
"""


class SupervisedGroup:
    """A supervisor in a process of its own, and its stand-ins."""

    def __init__(
        self, out: Path, codes: dict[str, str], max_restarts: int, stderr: int, grace: dict[str, float]
    ):
        line = [sys.executable, "-c", SUPERVISOR, str(out), ROLE, " ".join(codes), str(max_restarts)]
        line.append(json.dumps({**GRACE, **grace}))
        self.out = out
        self.process = subprocess.Popen(
            [*line, *codes.values()],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )

    def ended(self, seconds: float = 30) -> tuple[int, str, str]:
        stdout, stderr = self.process.communicate(timeout=seconds)
        return self.process.returncode, stdout, stderr

    def log(self, name: str) -> str:
        return (self.out / "logs" / f"{name}.log").read_text()

    def pids(self, *markers: str) -> list[int]:
        """All processes of this group but the supervisor: its children, or what is left of them."""
        wanted = [f"{marker}\0".encode() for marker in (f"OUT={self.out}", *markers)]
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):  # it has ended since
                environment = path.read_bytes()
                if all(marker in environment for marker in wanted):
                    found.append(int(path.parent.name))
        return found

    def pid(self, name: str) -> int:
        (pid,) = self.pids(f"MXTRAIN_NODE={name}")
        return pid


def until(is_so: Callable[[], Any], otherwise: str, seconds: float = 15) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, otherwise
        time.sleep(0.02)


def is_ready(job: SupervisedGroup, *names: str) -> Callable[[], bool]:
    return lambda: all((job.out / f"{name}.ready").exists() for name in names)


@pytest.fixture(name="start")
def starting(tmp_path: Path) -> Iterator[Callable[..., SupervisedGroup]]:
    """Start a group; a role's code is `wait()` unless it is given."""
    jobs: list[SupervisedGroup] = []

    def start(
        max_restarts: int = 3,
        names: list[str] = NAMES,
        stderr: int = subprocess.PIPE,
        grace: dict[str, float] = GRACE,
        **codes: str,
    ) -> SupervisedGroup:
        given = {name.replace("_", "-"): code for name, code in codes.items()}
        (tmp_path / "run").mkdir(exist_ok=True)
        codes = {name: given.get(name, "wait()") for name in names}
        jobs.append(SupervisedGroup(tmp_path / "run", codes, max_restarts, stderr, grace))
        return jobs[-1]

    yield start
    for job in jobs:
        job.process.kill()
        job.process.communicate(timeout=10)
        until(lambda job=job: not job.pids(), "a process is left behind")
