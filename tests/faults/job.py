"""A job of a few workers to inject faults into: started as a user would, and observed from outside."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Iterator

from tests.faults.samples import ROOT
from tests.faults.traces import MARK, Traces
from tests.support.process_tree import roles
from tests.support.runs import curve, is_now, newest, rows_of, text

STEPS_PER_EPOCH, NUM_STEPS = 8, 24
LENGTH = [
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
FLAGS = [
    *("--model", "benchmarks.same_curve.nets:with_both", "--loss", "tests.support.losses.swinging_loss:loss"),
    *("--image-size", "16", "--val-resize", "16", "--augment", "pad_crop:pad=2", "--lr", "0.01"),
    *("--clip-norm", "1", *LENGTH),
]
TIMES = ["--start-timeout", "15", "--silence-timeout", "3", "--stall-timeout", "60"]
SUPERVISOR = "supervisor"


# A net whose patches of a picture are rows of a table.
TABLE = "patches"
OF_TABLES = ["--model", "tests.support.nets.table_nets:owned", *FLAGS[2 : -len(LENGTH)]]

# What becomes of the weights in a job, by its kind: flags beside those of its workers and servers.
KINDS = {
    "dist_sync": [],
    "allreduce": [],
    "owners": ["--update", "servers"],
    "held": ["--update", "servers", "--hold", "layers"],
    "tables": ["--update", "servers", *OF_TABLES],
}


def cluster(num_workers: int, num_servers: int = 1, kind: str = "dist_sync") -> list[str]:
    """The flags of a job of a kind of `KINDS`; one without servers sums among its workers."""
    store = ["dist_sync", "--num-servers", str(num_servers)] if num_servers else ["allreduce"]
    return ["--kvstore", *store, *KINDS[kind], "--num-workers", str(num_workers), *TIMES]


CLUSTER = cluster(2)
# Flags of one process with the same result as jobs of a kind, where it needs some.
ALONE = {"held": ["--hold", "layers"], "tables": OF_TABLES}


class FaultJob:
    """`python -m mxtrain.fit` over a cluster, in FOLDER/run: on pictures, unless `flags` say what is learnt."""

    def __init__(self, folder: Path, *flags: str, **environment: str):
        flags = (*(LENGTH if "--model" in flags or "--task" in flags else FLAGS), *flags)
        self.folder, self.out, self._flags = folder, folder / "run", flags
        self.traces = Traces(folder)
        self._strays: list[subprocess.Popen[bytes]] = []
        self._output = (folder / "output.log").open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mxtrain.fit", "--out", str(self.out), *flags],
            **{"cwd": ROOT, "env": {**self.traces.environment, **environment}},
            **{"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": self._output},
        )

    def start_stray(self, pid: int) -> None:
        """Start a process of another job that has the address, the role and the counts of the process `pid`."""
        place = {}
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/environ").read_text().split("\0"):
                name, _, value = line.partition("=")
                if name.startswith("DMLC_") or name == "MXTRAIN_NODE":
                    place[name] = value
        command = [sys.executable, "-m", "mxtrain.fit", *self._flags, "--lr", "0.02"]
        command += ["--out", str(self.folder / "stray")]
        environment = {name: value for name, value in self.traces.environment.items() if name != MARK}
        with (self.folder / "stray.log").open("ab") as log:
            self._strays.append(
                subprocess.Popen(command, cwd=ROOT, env={**environment, **place}, stdout=log, stderr=log)
            )

    def output(self) -> str:
        """The supervisor's lines on the terminal."""
        return (self.folder / "output.log").read_text(errors="replace")

    def logs(self) -> str:
        """The logs of all roles, one after the other."""
        return "".join(path.read_text(errors="replace") for path in (self.out / "logs").glob("[sw]*.log"))

    def pid(self, role: str) -> int | None:
        if role == SUPERVISOR:
            return self.process.pid
        with contextlib.suppress(OSError):  # one has just ended
            return roles(self.process.pid).get(role)
        return None

    def step(self) -> int:
        """The last step in its records, 0 without any."""
        return max(map(int, re.findall(r'"kind": "train", "step": (\d+),', text(self.out))), default=0)

    def is_scored(self, step: int) -> bool:
        return f'"kind": "eval", "step": {step},' in text(self.out)

    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def kill(self) -> None:
        """Kill all processes of the job."""
        self.traces.kill()
        for stray in self._strays:
            stray.kill()
            stray.wait(10)
        self.process.wait(10)
        self._output.close()


@contextlib.contextmanager
def started(folder: Path, *flags: str, **environment: str) -> Iterator[FaultJob]:
    """Start a job for the block; none of its processes outlives it."""
    job = FaultJob(folder, *flags, **environment)
    try:
        yield job
    finally:
        job.kill()


def wait_for(happened: Callable[[], object], seconds: float) -> bool:
    """Wait until `happened()` is true, and return False where it was not within so many seconds."""
    end = time.monotonic() + seconds
    while not is_now(happened):
        if time.monotonic() > end:
            return False
    return True


def result(out: Path) -> tuple[Any, ...]:
    """The result of a run, whoever computed it: its records without times, and its newest checkpoint.

    Of the checkpoint all arrays, among them running statistics, the optimizer's state and the grid, all values, and the
    rows of a table, if there is one.
    """
    checkpoint = newest(out)
    values = json.loads((checkpoint / "state.json").read_text())
    for name in ("config", "job", "modules"):  # they name folders, the cluster and what code a user gave
        del values[name]
    rows = rows_of(out, TABLE) if any(checkpoint.glob("*.rows")) else {}
    return curve(out), values, {path.name: path.read_bytes() for path in checkpoint.glob("*.params")}, rows
