"""Groups of processes on loopback with a deadline: workers alone, or with a scheduler and servers."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from typing import IO, Any, Callable, Mapping, NamedTuple, Sequence

from benchmarks.harness.processes import ROOT

DEADLINE_SECONDS = 280  # a busy machine takes minutes to start them


class Process(NamedTuple):
    line: Sequence[object]
    environment: Mapping[str, str]


class ProcessGroup:
    """Processes of which the last `num_workers` take turns; leaving it kills them.

    Each has one OpenMP thread, or as many as it takes by itself.
    """

    def __init__(self, processes: Sequence[Process], num_workers: int, is_one_thread: bool = True):
        left_out = {"PORT", "OMP_NUM_THREADS"}  # ps-lite would take the former
        inherited = {name: value for name, value in os.environ.items() if name not in left_out}
        threads = {"OMP_NUM_THREADS": "1"} if is_one_thread else {}
        self.common = {**inherited, "PYTHONPATH": str(ROOT), **threads}
        self.children = [self._start(process) for process in processes]
        self.workers = self.children[-num_workers:]

    def __enter__(self) -> ProcessGroup:
        return self

    def __exit__(self, *_: object) -> None:
        self._kill()
        for child in self.children:
            with contextlib.suppress(BrokenPipeError), child:  # closes its pipes
                pass

    def turn(self) -> list[Any]:
        """Return the list that each worker prints as JSON after a line; RuntimeError if one does not in time."""
        late = threading.Timer(DEADLINE_SECONDS, self._kill)
        late.start()
        try:
            for worker in self.workers:
                _write_line(worker)
            return [_answer(worker) for worker in self.workers]
        finally:
            late.cancel()

    def end(self, deadline_seconds: float = DEADLINE_SECONDS) -> list[str]:
        """Return what each worker printed; RuntimeError, with all output, if one fails or does not end in time."""
        self._wait(time.monotonic() + deadline_seconds)
        self._kill()
        outputs = [child.communicate()[0] for child in self.children]
        codes = [child.returncode for child in self.children]
        if any(codes):
            raise RuntimeError(f"exit codes {codes}\n" + "\n".join(outputs))
        return outputs[-len(self.workers) :]

    def _start(self, process: Process) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(word) for word in process.line],
            cwd=ROOT,
            env={**self.common, **process.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def _kill(self) -> None:
        for child in self.children:
            child.kill()

    def _wait(self, deadline: float) -> None:
        """Wait until all have ended, or one has failed, for which the others might wait forever."""
        for worker in self.workers:
            _pipe(worker.stdin).close()
            worker.stdin = None
        while time.monotonic() < deadline:
            codes = [child.poll() for child in self.children]
            if None not in codes or any(codes):
                return
            time.sleep(0.05)


def cluster(
    line: Callable[[str], Sequence[object]], num_workers: int, num_servers: int, **environment: str
) -> ProcessGroup:
    """Return workers with a scheduler and servers of ps-lite; `line` gives the command of each by its name."""
    common = {
        **environment,
        "DMLC_PS_ROOT_URI": "127.0.0.1",
        "DMLC_PS_ROOT_PORT": str(free_port()),
        "DMLC_NODE_HOST": "127.0.0.1",
        "DMLC_NUM_WORKER": str(num_workers),
        "DMLC_NUM_SERVER": str(num_servers),
    }
    servers, workers = (
        [f"{role}-{n}" for n in range(count)]
        for role, count in (("server", num_servers), ("worker", num_workers))
    )
    places = {
        name: {"DMLC_ROLE": name.partition("-")[0], "MXTRAIN_NODE": name}
        for name in ("scheduler", *servers, *workers)
    }
    return ProcessGroup(
        [Process(line(name), {**common, **place}) for name, place in places.items()], num_workers
    )


def answer_turns(make: Callable[[], Any]) -> None:
    """Print as JSON what `make` returns for each line of stdin, until it ends: a worker's own end of `turn`."""
    for _ in sys.stdin:
        print(json.dumps(make()), flush=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _write_line(worker: subprocess.Popen[str]) -> None:
    try:
        _pipe(worker.stdin).write("\n")
        _pipe(worker.stdin).flush()
    except BrokenPipeError:
        raise RuntimeError(f"{worker.args!r} has ended:\n{_pipe(worker.stdout).read()}") from None


def _answer(worker: subprocess.Popen[str]) -> Any:
    """Return the next list that a worker prints, after any warnings."""
    printed = []
    for line in _pipe(worker.stdout):
        if line.startswith("["):
            return json.loads(line)
        printed.append(line)
    raise RuntimeError(f"{worker.args!r} gave no answer:\n" + "".join(printed))


def _pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream
