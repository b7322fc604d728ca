"""Real processes of a job on loopback, each with a control channel and a log of its own, and a deadline for all."""

from __future__ import annotations

import atexit
import contextlib
import logging
import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, Callable

from mxtrain.cluster import agent, coordinator
from mxtrain.cluster.admission import rendezvous
from mxtrain.cluster.admission.rendezvous import NodeInfo
from mxtrain.cluster.agent import Agent
from mxtrain.cluster.channel import Timeouts
from mxtrain.cluster.environment import LOOPBACK, NodeSpec
from mxtrain.core import errors
from mxtrain.launch.local import free_port
from mxtrain.train import signals

PATIENT = Timeouts(start=20, silence=10, stall=20)  # of tests that are not about time
NAMES = ("scheduler", "server-0", "worker-0", "worker-1")
# Importing numpy anew in each process would be most of the tests' time.
FORK = multiprocessing.get_context("fork")
Script = Callable[[Agent], None]


def node_spec(name: str, port: int, num_workers: int = 2, **changes: Any) -> NodeSpec:
    """The place of a process of this name in a job of one server on loopback."""
    role = name.split("-")[0]
    fields = {"token": "secret", "attempt": 0, "num_servers": 1, **changes}
    return NodeSpec(
        role=role, root=LOOPBACK, port=port, num_workers=num_workers, node_host=LOOPBACK, name=name, **fields
    )


def node_info(node: str, host: str = "a", pid: int = 1, **more: Any) -> NodeInfo:
    """The description of a process of this name."""
    return NodeInfo(node.split("-")[0], node, host, boot_id="", pid=pid, **more)


def wait(me: Agent) -> None:
    time.sleep(60)


def finish(me: Agent) -> None:
    me.finish()


class Node:
    """A process of a job; its script runs between the rendezvous and the end."""

    def __init__(
        self,
        folder: Path,
        node: NodeSpec,
        script: Script | None = None,
        timeouts: Timeouts = PATIENT,
        info: dict[str, Any] | None = None,
        min_workers: int = 0,
        handles_signals: bool = False,
        joins_after: Path | None = None,
    ):
        self.name, self.port = node.name, node.port
        self.log = folder / f"{node.name}-{time.monotonic_ns()}.log"
        self.log.touch()
        script = script or (finish if node.role == "worker" else wait)

        def command() -> None:
            if node.role == "scheduler":
                coordinator.start(node, rendezvous.describe(node, info or {}), timeouts, min_workers)
            if joins_after is not None:
                wait_for_file(joins_after)
            requests = signals.stop_requests() if handles_signals else contextlib.nullcontext(())
            with requests as stop_requests, agent.join(node, info or {}, timeouts, stop_requests) as me:
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
    def output(self) -> str:
        return self.log.read_text()

    @property
    def last_words(self) -> str:
        """Its output without the lines on who came."""
        return "".join(
            line
            for line in self.output.splitlines(keepends=True)
            if not line.startswith(("here: ", "refused: "))
        )

    def send(self, number: int) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def exit_code(self, seconds: float = 10) -> int | None:
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


def start_job(folder: Path, scripts: dict[str, Script] | None = None, **common: Any) -> dict[str, Node]:
    """A scheduler, a server and two workers; `scripts` of those that do more than end well."""
    port = free_port()
    return {name: Node(folder, node_spec(name, port), (scripts or {}).get(name), **common) for name in NAMES}


def exit_codes(job: dict[str, Node], seconds: float = 10) -> dict[str, int | None]:
    """The exit code of each process, all of them within so many seconds."""
    deadline = time.monotonic() + seconds
    return {name: node.exit_code(max(0.0, deadline - time.monotonic())) for name, node in job.items()}


def start_nodes(folder: Path, port: int, *names: str, **common: Any) -> dict[str, Node]:
    """These processes of a job alone."""
    return {name: Node(folder, node_spec(name, port), **common) for name in names}


def wait_for_output(node: Node, text: str) -> None:
    """Wait until a process has written this."""
    deadline = time.monotonic() + 10
    while text not in node.output:
        assert time.monotonic() < deadline, node.output
        time.sleep(0.01)


def wait_for_file(path: Path, seconds: float = 10) -> None:
    """Wait until a process has made this file."""
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} never came"
        time.sleep(0.005)
