"""Roles started one by one, by DMLC_* alone and without a supervisor; each may be told something of its own."""

from __future__ import annotations

import dataclasses
import socket
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
class Own:
    """What only one node is told."""

    flags: tuple[str, ...] = ()
    environment: dict[str, str] = dataclasses.field(default_factory=dict)


class Ended(NamedTuple):
    """`codes` of those that ended in time by themselves."""

    codes: dict[str, int]
    said: dict[str, str]
    left: list[str]
    seconds: float


def ended(
    folder: Path, port: int, *flags: str, seconds: float, names: tuple[str, ...] = NAMES, **own: Own
) -> Ended:
    """Start them all in FOLDER, and see how they end; `own` by name, with _ for -."""
    traces, began = Traces(folder), time.monotonic()
    processes = {name: _start(name, folder, traces, port, flags, own) for name in names}
    try:
        codes: dict[str, int] = {}
        for name, process in processes.items():
            try:
                codes[name] = process.wait(max(0.1, began + seconds - time.monotonic()))
            except subprocess.TimeoutExpired:
                continue
        lasted_seconds, left = time.monotonic() - began, traces.left()
    finally:
        for process in processes.values():
            process.kill()
            process.wait(10)
        traces.end()
    said = {name: (folder / f"{name}.log").read_text(errors="replace") for name in names}
    return Ended(codes, said, left, lasted_seconds)


def _start(
    name: str, folder: Path, traces: Traces, port: int, flags: tuple[str, ...], own: dict[str, Own]
) -> subprocess.Popen[bytes]:
    mine = own.get(name.replace("-", "_"), Own())
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


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])
