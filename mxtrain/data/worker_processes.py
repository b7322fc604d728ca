"""Loader workers as processes: started, watched, replaced when they die, and never left behind.

Each is a new Python with nothing of this one's in it (MXNet, its threads and locks), which inherits two things: a
socket to the thread that started it, and a memory file without a name, in which all batches lie. So there is
nothing in /dev/shm to fill up or to clean away: the memory goes when the last process that has it is gone. What a
worker does inside is `worker_main.py`'s.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import signal
import subprocess
import sys
import threading
from multiprocessing.connection import Connection, Pipe
from typing import Iterator

import numpy as np

from mxtrain.core import machine
from mxtrain.core.errors import DataError, RestartMe, UsageError
from mxtrain.data.assembly import Bad, SampleAssembly
from mxtrain.data.worker_pool import Job, Memory, Run

MAX_DEATHS = 3  # over one piece
POLL_SECONDS = 0.2


class SharedMemory:
    """Memory that worker processes write and this one reads; it grows by whole blocks and never shrinks."""

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("mxtrain-loader")
        self._num_bytes = 0

    def block(self, num_bytes: int) -> Memory:
        size = -(-num_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
        # Pages are taken when they are first written, and too late then for anything but a kill.
        if size > machine.available_memory():
            raise UsageError(
                f"no memory for {size >> 20} MB more of batches: lower --prefetch-mb or --micro-batch"
            )
        os.ftruncate(self.descriptor, self._num_bytes + size)
        mapped = mmap.mmap(self.descriptor, size, offset=self._num_bytes)
        memory = Memory(np.frombuffer(mapped, np.uint8), self._num_bytes)
        self._num_bytes += size
        return memory

    def close(self) -> None:
        os.close(self.descriptor)


@contextlib.contextmanager
def worker(fill: SampleAssembly, shared: SharedMemory, closed: threading.Event) -> Iterator[Run]:
    """A process that does jobs for the calling thread, and ends with the block."""
    child = Child(fill, shared, closed)
    try:
        yield child.run
    finally:
        child.end()


class Child:
    """One worker process at a time; the next takes over the piece at which one died."""

    def __init__(self, fill: SampleAssembly, shared: SharedMemory, closed: threading.Event):
        self._fill = fill
        self._shared = shared
        self._closed = closed
        self._process, self._connection = self._start()

    def run(self, job: Job) -> list[Bad]:
        for _ in range(MAX_DEATHS):
            try:
                return self._ask(job)
            except (EOFError, OSError):  # its end of the socket is closed: it is gone
                exit_code = self.end()
                self._process, self._connection = self._start()
        raise self._too_many_deaths(job, exit_code)

    def end(self) -> int:
        """Kill the process, which has nothing to save; its exit code."""
        self._connection.close()
        self._process.kill()
        return self._process.wait()

    def _ask(self, job: Job) -> list[Bad]:
        memory = job.memory
        self._connection.send((job.piece, memory.offset, len(memory.bytes), job.shape))
        while not self._connection.poll(POLL_SECONDS):
            if self._closed.is_set():
                return []
            if self._process.poll() is not None:  # and a child of its own holds the socket open
                raise EOFError
        answer = self._connection.recv()
        if isinstance(answer, Exception):
            raise answer
        replaced: list[Bad] = answer
        return replaced

    def _start(self) -> tuple[subprocess.Popen[bytes], Connection]:
        ours, theirs = Pipe()
        # Modules are looked for where this process looks, and signals to the group are left to it.
        program = (
            "import signal, sys\n"
            "for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):\n"
            "    signal.signal(number, signal.SIG_IGN)\n"
            f"sys.path[:] = {sys.path!r}\n"
            "from mxtrain.data import worker_main\n"
            f"worker_main.serve({os.getpid()}, {theirs.fileno()}, {self._shared.descriptor})\n"
        )
        inherited = (theirs.fileno(), self._shared.descriptor, *self._fill.records.descriptors)
        # One thread a worker: decoding has no use for teams, and their threads would fight over the cores.
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        process = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.DEVNULL, pass_fds=inherited, env=environment
        )
        theirs.close()
        try:
            ours.send(self._fill)
        except OSError:
            pass  # it died at once, which `run` will find
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            process.kill()
            process.wait()
            raise UsageError(
                f"--loader processes cannot send {self._fill.transform} to a process ({error}): "
                "use --loader threads, or a function at the top of a module"
            ) from None
        return process, ours

    def _too_many_deaths(self, job: Job, exit_code: int) -> Exception:
        samples = job.piece.samples
        where = f"{self._fill.records.where(int(samples[0]))} and {len(samples) - 1} others"
        if exit_code == -signal.SIGKILL:
            return RestartMe(
                f"a loader worker was killed {MAX_DEATHS} times while it read {where}: by the kernel for want of "
                "memory? (dmesg tells) lower --prefetch-mb or --loader-workers and run again to go on"
            )
        cause = signal.Signals(-exit_code).name if exit_code < 0 else f"exit code {exit_code}"
        return DataError(
            f"a loader worker died {MAX_DEATHS} times ({cause}) while it read {where}: look at these records with "
            "`python -m tools.im2rec_wrapper check`, or use --loader threads to see more"
        )
