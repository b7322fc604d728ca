"""Real processes of a job on loopback, each with a control line and a log of its own, and a deadline for all."""

from __future__ import annotations

import atexit
import contextlib
import logging
import multiprocessing
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any, Callable

from mxtrain.cluster import agent, coordinator
from mxtrain.cluster.agent import Agent, Timeouts
from mxtrain.cluster.environment import LOOPBACK, NodeSpec
from mxtrain.core import errors
from mxtrain.train import signals

PATIENT = Timeouts(start=20, silence=10, stall=20)  # of tests that are not about time
NAMES = ("scheduler", "server-0", "worker-0", "worker-1")
FORK = multiprocessing.get_context(
    "fork"
)  # importing numpy anew in each process would be most of the tests' time
Script = Callable[[Agent], None]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def place(name: str, port: int, num_workers: int = 2, **changes: Any) -> NodeSpec:
    role = name.split("-")[0]
    fields = {"token": "secret", "generation": 0, "num_servers": 1, **changes}
    return NodeSpec(
        role=role, root=LOOPBACK, port=port, num_workers=num_workers, node_host=LOOPBACK, name=name, **fields
    )


def wait(me: Agent) -> None:
    time.sleep(60)


def finish(me: Agent) -> None:
    me.finish()


class Node:
    """A process of a job; its script runs between the roll call and the end."""

    def __init__(
        self,
        folder: Path,
        cluster: NodeSpec,
        script: Script | None = None,
        times: Timeouts = PATIENT,
        card: dict[str, Any] | None = None,
        min_workers: int = 0,
        heeds_signals: bool = False,
    ):
        self.name, self.port = cluster.name, cluster.port
        self.log = folder / f"{cluster.name}-{time.monotonic_ns()}.log"
        self.log.touch()
        script = script or (finish if cluster.role == "worker" else wait)

        def command() -> None:
            if cluster.role == "scheduler":
                coordinator.oversee(cluster, times, min_workers)
            heeded = signals.stop_requests() if heeds_signals else contextlib.nullcontext(())
            with heeded as stop_requests, agent.join(cluster, card or {}, times, stop_requests) as me:
                script(me)

        def main() -> None:
            log = os.open(self.log, os.O_WRONLY | os.O_CREAT, 0o644)
            os.dup2(log, 1)
            os.dup2(log, 2)
            sys.stderr = os.fdopen(2, "w")
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            logging.basicConfig(level="INFO", format="%(message)s", force=True)
            code = 1
            try:
                code = errors.one_line("mxtrain.fit", command)
            finally:
                os._exit(code)

        self.process = FORK.Process(target=main, daemon=True)
        self.process.start()
        # Left to multiprocessing, one that a failed test leaves frozen would be waited for without end.
        atexit.register(self.process.kill)

    @property
    def said(self) -> str:
        return self.log.read_text()

    @property
    def end(self) -> str:
        """What it said besides who came."""
        return "".join(
            line
            for line in self.said.splitlines(keepends=True)
            if not line.startswith(("here: ", "refused: "))
        )

    def send(self, number: int) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def code(self, seconds: float = 10) -> int | None:
        """Its exit code, None if it still ran after so many seconds and had to be killed."""
        deadline = time.monotonic() + seconds
        while True:
            if self.process.exitcode is not None:
                return self.process.exitcode
            if time.monotonic() > deadline:
                break
            time.sleep(0.005)
        self.process.kill()
        self.process.join()
        return None


def start(folder: Path, scripts: dict[str, Script] | None = None, **common: Any) -> dict[str, Node]:
    """A scheduler, a server and two workers; `scripts` of those that do more than end well."""
    port = free_port()
    return {name: Node(folder, place(name, port), (scripts or {}).get(name), **common) for name in NAMES}


def codes(job: dict[str, Node], seconds: float = 10) -> dict[str, int | None]:
    """How each process ended, all of them within so many seconds."""
    deadline = time.monotonic() + seconds
    return {name: node.code(max(0.0, deadline - time.monotonic())) for name, node in job.items()}


def when(path: Path, seconds: float = 10) -> None:
    """Wait until a process has made this file."""
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} never came"
        time.sleep(0.005)
