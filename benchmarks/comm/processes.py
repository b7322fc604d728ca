"""Processes that work together on loopback and end in time: workers alone, or with MXNet's scheduler and servers."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Mapping, NamedTuple, Sequence

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_SECONDS = 100
SERVE = """
from mxtrain import runtime
mx = runtime.load()
mx.kvstore.kvstore_server.KVStoreServer(mx.kv.create("dist")).run()
"""


class Process(NamedTuple):
    line: Sequence[object]
    environment: Mapping[str, str]


def with_servers(worker: Sequence[object], num_workers: int, num_servers: int) -> list[str]:
    """What each worker printed."""
    common = {
        "DMLC_PS_ROOT_URI": "127.0.0.1",
        "DMLC_PS_ROOT_PORT": str(free_port()),
        "DMLC_NODE_HOST": "127.0.0.1",
        "DMLC_NUM_WORKER": str(num_workers),
        "DMLC_NUM_SERVER": str(num_servers),
    }
    serve = [sys.executable, "-c", SERVE]
    lines = {"scheduler": serve, "server": serve, "worker": worker}
    roles = ["scheduler", *["server"] * num_servers, *["worker"] * num_workers]
    return together([Process(lines[role], {**common, "DMLC_ROLE": role}) for role in roles])[-num_workers:]


def together(processes: Sequence[Process]) -> list[str]:
    """What each printed, with one OpenMP thread; RuntimeError says what went wrong unless all ended well."""
    inherited = {name: value for name, value in os.environ.items() if name != "PORT"}  # ps-lite would take it
    common = {**inherited, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(
            [str(word) for word in process.line],
            cwd=ROOT,
            env={**common, **process.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for process in processes
    ]
    try:
        _wait(started, time.monotonic() + DEADLINE_SECONDS)
    finally:
        for child in started:
            child.kill()
    outputs = [child.communicate()[0] for child in started]
    codes = [child.returncode for child in started]
    if any(codes):
        raise RuntimeError(f"exit codes {codes}\n" + "\n".join(outputs))
    return outputs


def _wait(children: Sequence[subprocess.Popen[str]], deadline: float) -> None:
    """Until all have ended, or one has failed: the others might wait for it for ever."""
    while time.monotonic() < deadline:
        codes = [child.poll() for child in children]
        if None not in codes or any(codes):
            return
        time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
