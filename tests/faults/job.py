"""A job of a few workers that faults strike: started as a user would, and watched from outside."""

from __future__ import annotations

import contextlib
import math
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Iterator

from tests.faults.samples import ROOT
from tests.faults.traces import Traces
from tests.support.processes import roles
from tests.support.runs import curve, newest, text

STEPS_PER_EPOCH, NUM_STEPS = 8, 24
FLAGS = [
    *("--model", "benchmarks.same_curve.nets:with_both"),
    *("--image-size", "16", "--val-resize", "16", "--augment", "pad_crop:pad=2", "--lr", "0.01"),
    *(
        "--batch-size",
        "16",
        "--micro-batch",
        "4",
        "--epochs",
        "3",
        "--threads",
        "1",
        "--checkpoint-steps",
        "3",
    ),
]
TIMES = ["--start-timeout", "15", "--silence-timeout", "3", "--stall-timeout", "60"]
SUPERVISOR = "supervisor"
NEAR = 1e-4  # of a number in 24 steps, where the order of sums is left to chance


def cluster(num_workers: int) -> list[str]:
    return ["--kvstore", "dist_sync", "--num-workers", str(num_workers), *TIMES]


CLUSTER = cluster(2)


class Job:
    """`python -m mxtrain.fit` over a cluster, in FOLDER/run."""

    def __init__(self, folder: Path, *flags: str, **environment: str):
        self.folder, self.out = folder, folder / "run"
        self.traces = Traces(folder)
        self._said = (folder / "said.log").open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mxtrain.fit", "--out", str(self.out), *FLAGS, *flags],
            **{"cwd": ROOT, "env": {**self.traces.environment, **environment}},
            **{"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": self._said},
        )

    def said(self) -> str:
        """On the terminal, by the supervisor."""
        return (self.folder / "said.log").read_text(errors="replace")

    def logged(self) -> str:
        """By all roles."""
        return "".join(path.read_text(errors="replace") for path in (self.out / "logs").glob("[sw]*.log"))

    def pid(self, role: str) -> int | None:
        if role == SUPERVISOR:
            return self.process.pid
        with contextlib.suppress(OSError):  # one has just ended
            return roles(self.process.pid).get(role)
        return None

    def step(self) -> int:
        """How far it has come."""
        return max(map(int, re.findall(r'"kind": "train", "step": (\d+),', text(self.out))), default=0)

    def is_scored(self, step: int) -> bool:
        return f'"kind": "eval", "step": {step},' in text(self.out)

    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def end(self) -> None:
        self.traces.end()
        self.process.wait(10)
        self._said.close()


@contextlib.contextmanager
def started(folder: Path, *flags: str, **environment: str) -> Iterator[Job]:
    """None of its processes outlives the block."""
    job = Job(folder, *flags, **environment)
    try:
        yield job
    finally:
        job.end()


def until(happened: Callable[[], object], seconds: float) -> bool:
    """Whether it did within so many seconds."""
    end = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > end:
            return False
        time.sleep(0.002)
    return True


def result(out: Path) -> tuple[Any, ...]:
    """What a run has come to: its records without times, and all its arrays."""
    return curve(out), {path.name: path.read_bytes() for path in newest(out).glob("*.params")}


def is_same(found: tuple[Any, ...], expected: tuple[Any, ...], num_workers: int) -> bool:
    """To the bit; with three workers and more, whose sums the servers add as they arrive, the records to rounding."""
    if num_workers < 3:
        return found == expected
    records, others = found[0], expected[0]
    return len(records) == len(others) and all(
        record.keys() == other.keys() and all(_is_near(record[name], other[name]) for name in other)
        for record, other in zip(records, others)
    )


def _is_near(one: Any, other: Any) -> bool:
    return one == other if isinstance(one, str) else math.isclose(one, other, rel_tol=NEAR)
