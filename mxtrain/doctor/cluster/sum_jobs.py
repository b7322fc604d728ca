"""Cost of sums on this machine: a socket alone, then short jobs of two workers over each kind of cluster.

Owns the jobs and their end, within the seconds that the caller gives. Does not own what their workers measure
(`sum_worker.py`) nor the conclusions (`store_advice.py`). Never loads mxnet.
"""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Sequence

from mxtrain.cluster import unix_sockets
from mxtrain.core.die_with_parent import SUPERVISOR_PID
from mxtrain.launch import local, plan

SECONDS = 55.0
MIN_SECONDS = 3.0
# Number of servers, and True for unix sockets and memory that servers share; without servers workers share it.
CLUSTERS = ((1, True), (1, False), (2, True), (0, True))
WORKERS, BYTES_OF_FLOAT = 2, 4
MEGABYTES, BUCKET_MB = 50.0, (1.0, 4.0, 16.0)
ARRAYS = 64
SUMS_FILE = "sums.json"  # in the folder of a job: what its workers are to sum
SOCKET_BYTES, CHUNK = 256 << 20, 1 << 20
NOT_INHERITED = ("DMLC_", "PS_", "MXTRAIN_")


def measure(seconds: float = SECONDS) -> dict[str, Any]:
    """Return the milliseconds in which two workers sum MEGABYTES, as plain JSON values; a job may hold an error.

    `seconds` bound the whole measurement.
    """
    deadline = time.monotonic() + seconds
    return {
        "workers": WORKERS,
        "megabytes": MEGABYTES,
        "sockets": {"tcp": socket_rate(socket.AF_INET), "unix": socket_rate(socket.AF_UNIX)},
        "jobs": [job(num_servers, unix, deadline) for num_servers, unix in CLUSTERS],
    }


def socket_rate(family: int) -> float:
    """Return the GB/s that one thread sends to another over a socket of this family."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(family) as listener:
        listener.bind((plan.LOOPBACK, 0) if family == socket.AF_INET else f"{folder}/socket")
        listener.listen(1)
        with socket.socket(family) as sender:
            sender.connect(listener.getsockname())
            receiver, _ = listener.accept()
            with receiver:
                started = time.perf_counter()
                thread = threading.Thread(target=sender.sendall, args=(memoryview(bytes(SOCKET_BYTES)),))
                thread.start()
                buffer, left = bytearray(CHUNK), SOCKET_BYTES
                while left:
                    left -= receiver.recv_into(buffer, min(left, CHUNK))
                thread.join()
                return round(SOCKET_BYTES / (time.perf_counter() - started) / 1e9, 2)


class SumTimes(NamedTuple):
    """Arrays that workers sum, by their numbers of elements, over each kind of buckets, by its name."""

    workers: int
    elements: Sequence[int]
    buckets: Mapping[str, Mapping[str, Any]]  # the megabytes of a bucket, and the threshold of compression


OF_MACHINE = SumTimes(
    WORKERS,
    [int(MEGABYTES * 1e6 / ARRAYS / BYTES_OF_FLOAT)] * ARRAYS,
    {f"{size:g}": {"bucket_mb": size} for size in BUCKET_MB},
)


def job(num_servers: int, unix: bool, deadline: float, sums: SumTimes = OF_MACHINE) -> dict[str, Any]:
    """Run one cluster of the real roles until `deadline` at most; return its measurements or its error.

    `times` has the milliseconds of all rounds for each kind of buckets, `milliseconds` their median.
    """
    result: dict[str, Any] = {
        **{"servers": num_servers, "unix_sockets": unix, "error": None},
        **{"milliseconds": {}, "times": {}},
    }
    left = deadline - time.monotonic()
    if left < MIN_SECONDS:
        return {**result, "error": "no time was left for it; the machine is busy"}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, SUMS_FILE).write_text(json.dumps(sums._asdict()))
        group = processes(num_servers, unix, Path(folder), left, sums.workers)
        try:
            children = [_start(process) for process in group]
            try:
                error = _wait(group, children, deadline)
            finally:
                _end(children)
                unix_sockets.sweep()
        except OSError as problem:
            error = str(problem)
        printed = Path(folder, "worker-0.log").read_text(errors="replace").splitlines()
    if error is not None:
        return {**result, "error": error}
    times = json.loads(next(line for line in printed if line.startswith("{")))
    medians = {name: round(statistics.median(taken), 1) for name, taken in times.items()}
    return {**result, "milliseconds": medians, "times": times}


def processes(
    num_servers: int, unix: bool, folder: Path, seconds: float, num_workers: int = WORKERS
) -> list[plan.ProcessSpec]:
    """Return the processes of such a cluster, of `allreduce` if it has no servers, which log to `folder`."""
    spec = plan.JobSpec(plan.LOOPBACK, local.free_port(), num_workers, num_servers)
    servers = ("dist_sync", "--num-servers", str(num_servers)) if num_servers else ("allreduce",)
    counts = ("--kvstore", *servers, "--num-workers", str(num_workers))
    flags = (*counts, "--start-timeout", f"{seconds:.1f}", "--out", str(folder))
    roles = plan.local_processes(spec, plan.fit_command(flags), folder, secrets.token_hex(16), attempt=0)
    worker = (sys.executable, "-m", "mxtrain.doctor.cluster.sum_worker", *flags)
    return [
        dataclasses.replace(
            each,
            argv=worker if each.role == plan.WORKER else each.argv,
            environment={**each.environment, "DMLC_LOCAL": str(int(unix))},
        )
        for each in roles
    ]


def environment(process: plan.ProcessSpec) -> dict[str, str]:
    """Return the process's own variables, and this one's but for those of a cluster; it dies with this one."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(NOT_INHERITED) and k != "PORT"}
    return {**inherited, **process.environment, SUPERVISOR_PID: str(os.getpid())}


def _start(process: plan.ProcessSpec) -> subprocess.Popen[bytes]:
    with process.log.open("wb") as log:
        return subprocess.Popen(
            process.argv,
            env=environment(process),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def _wait(
    group: list[plan.ProcessSpec], children: list[subprocess.Popen[bytes]], deadline: float
) -> str | None:
    """Wait until all have ended, one has failed or the time is over; return the error, None for a good end."""
    while True:
        codes = [child.poll() for child in children]
        failed = [(process, code) for process, code in zip(group, codes) if code]
        if failed:
            process, code = failed[0]
            last = (process.log.read_text(errors="replace").strip().splitlines() or ["no message"])[-1]
            return f"{process.name} ended with exit code {code}: {last}"
        if None not in codes:
            return None
        if time.monotonic() > deadline:
            return "it did not end in time; the machine is busy"
        time.sleep(0.05)


def _end(children: list[subprocess.Popen[bytes]]) -> None:
    for child in children:
        child.kill()
        child.wait()
