"""A scheduler and servers as MXNet has them, and workers that run a module of tests, on loopback; all of them end."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_SECONDS = 100
SERVE = """
from mxtrain import runtime
mx = runtime.load(threads=1)
mx.kvstore.kvstore_server.KVStoreServer(mx.kv.create("dist")).run()
"""


def run_workers(module: str, num_workers: int, num_servers: int, *arguments: object) -> list[str]:
    """What each worker printed; AssertionError with what was wrong unless every process ended well, in time."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "DMLC_PS_ROOT_URI": "127.0.0.1",
        "DMLC_PS_ROOT_PORT": str(_free_port()),
        "DMLC_NODE_HOST": "127.0.0.1",
        "DMLC_NUM_WORKER": str(num_workers),
        "DMLC_NUM_SERVER": str(num_servers),
    }
    environment.pop("PORT", None)  # would move every node to that port
    worker = ["-m", module, *(str(argument) for argument in arguments)]
    lines = {"scheduler": ["-c", SERVE], "server": ["-c", SERVE], "worker": worker}
    roles = ["scheduler", *["server"] * num_servers, *["worker"] * num_workers]
    processes = [
        subprocess.Popen(
            [sys.executable, *lines[role]],
            cwd=ROOT,
            env={**environment, "DMLC_ROLE": role},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for role in roles
    ]
    try:
        printed = _outputs(processes, time.monotonic() + DEADLINE_SECONDS)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    ended = [(role, process.returncode) for role, process in zip(roles, processes)]
    assert all(code == 0 for _, code in ended), f"{ended}\n" + "\n".join(printed)
    return printed[-num_workers:]


def _outputs(processes: list[subprocess.Popen[str]], deadline: float) -> list[str]:
    """Of all; where one has failed or is late the others are not waited for."""
    while any(process.poll() is None for process in processes) and not any(p.poll() for p in processes):
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    for process in processes:
        process.kill()
    return [process.communicate()[0] for process in processes]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
