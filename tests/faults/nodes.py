"""Nodes started one by one, by DMLC_* alone and without a supervisor; each may get flags and variables of its own."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from tests.faults.job import CLUSTER, FLAGS
from tests.faults.samples import ROOT
from tests.faults.traces import Traces

NAMES = ("scheduler", "server-0", "worker-0", "worker-1")
LOOPBACK = "127.0.0.1"


@dataclasses.dataclass(frozen=True)
class NodeOptions:
    """Flags and environment variables of one node alone."""

    flags: tuple[str, ...] = ()
    environment: dict[str, str] = dataclasses.field(default_factory=dict)


class NodesResult(NamedTuple):
    """The exit codes of the nodes that ended in time by themselves, the output of all, and what they left behind."""

    codes: dict[str, int]
    output: dict[str, str]
    left_behind: list[str]
    seconds: float


def run_nodes(
    folder: Path, port: int, *flags: str, seconds: float, names: tuple[str, ...] = NAMES, **own: NodeOptions
) -> NodesResult:
    """Start all nodes in FOLDER and return how they ended; `own` is by name, with _ for -."""
    traces, began = Traces(folder), time.monotonic()
    processes = {name: _start(name, folder, traces, port, flags, own) for name in names}
    try:
        codes: dict[str, int] = {}
        for name, process in processes.items():
            try:
                codes[name] = process.wait(max(0.1, began + seconds - time.monotonic()))
            except subprocess.TimeoutExpired:
                continue
        lasted_seconds, left_behind = time.monotonic() - began, traces.left_behind()
    finally:
        for process in processes.values():
            process.kill()
            process.wait(10)
        traces.kill()
    output = {name: (folder / f"{name}.log").read_text(errors="replace") for name in names}
    return NodesResult(codes, output, left_behind, lasted_seconds)


def _start(
    name: str, folder: Path, traces: Traces, port: int, flags: tuple[str, ...], own: dict[str, NodeOptions]
) -> subprocess.Popen[bytes]:
    mine = own.get(name.replace("-", "_"), NodeOptions())
    place = {"DMLC_ROLE": name.split("-")[0], "MXTRAIN_NODE": name, "DMLC_PS_ROOT_URI": LOOPBACK}
    place.update(DMLC_PS_ROOT_PORT=str(port), DMLC_NUM_WORKER="2", DMLC_NUM_SERVER="1")
    line = [
        sys.executable,
        "-m",
        "mxtrain.fit",
        "--out",
        str(folder / "run"),
        *FLAGS,
        *CLUSTER,
        *flags,
        *mine.flags,
    ]
    with (folder / f"{name}.log").open("wb") as log:
        environment = {**traces.environment, **place, **mine.environment}
        return subprocess.Popen(
            line, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
