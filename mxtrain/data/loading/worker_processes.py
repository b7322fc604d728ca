"""The loader's worker processes: started, watched, replaced when they die, and ended with the thread that drives them.

Each is a fresh Python, which shares neither MXNet nor threads and locks with this process. It inherits a socket to its
thread, and an unnamed memory file that holds all batches. So nothing in /dev/shm can fill up or be left behind: the
memory is freed with the last process that has it open. The loop inside a process is `worker_loop.py`'s.
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
from typing import Iterator, Mapping, Sequence

import numpy as np

from mxtrain.core import command_name
from mxtrain.core.errors import DataError, RestartMe, UsageError
from mxtrain.core.system import machine
from mxtrain.data.loading.assembly import SampleAssembly, SampleReader, SkippedRecord
from mxtrain.data.loading.worker_pool import Buffer, LoaderTask, RunTask

MAX_DEATHS = 3  # over one task
POLL_SECONDS = 0.2
_spawning = threading.Lock()


class SharedMemory:
    """Memory that worker processes write and this one reads; it grows by whole blocks and never shrinks."""

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("mxtrain-loader")
        self._num_bytes = 0

    def allocate(self, num_bytes: int) -> Buffer:
        """Return a new buffer of at least `num_bytes`; UsageError where the machine has no memory left for it."""
        size = -(-num_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
        # Pages are taken when they are first written, and too late then for anything but a kill.
        if size > machine.available_memory():
            raise UsageError(
                f"no memory for {size >> 20} MB more of batches: lower --prefetch-mb or --micro-batch"
            )
        os.ftruncate(self.descriptor, self._num_bytes + size)
        mapped = mmap.mmap(self.descriptor, size, offset=self._num_bytes)
        buffer = Buffer(np.frombuffer(mapped, np.uint8), self._num_bytes)
        self._num_bytes += size
        return buffer

    def close(self) -> None:
        """Close the file. Buffers stay valid until nothing refers to them."""
        os.close(self.descriptor)


@contextlib.contextmanager
def open_worker(assembly: SampleAssembly, shared: SharedMemory, closed: threading.Event) -> Iterator[RunTask]:
    """Give the calling thread a process that does its tasks, and end the process with the block."""
    worker = WorkerProcess(assembly, shared, closed)
    try:
        yield worker.run
    finally:
        worker.end()


def is_of_main(reader: SampleReader) -> bool:
    """Return whether a reader's pickle names anything of __main__, which is another module in each process."""
    try:
        return b"__main__" in pickle.dumps(reader)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False  # it cannot be sent at all, which is said when it is tried


class WorkerProcess:
    """One process at a time, for one thread; when it dies, the next one takes over its task."""

    def __init__(self, assembly: SampleAssembly, shared: SharedMemory, closed: threading.Event):
        self._assembly = assembly
        self._shared = shared
        self._closed = closed
        self._process, self._connection = self._start()

    def run(self, task: LoaderTask) -> list[SkippedRecord]:
        """Do a task and return the records that had to be replaced; raise what the process raised."""
        for _ in range(MAX_DEATHS):
            try:
                return self._try(task)
            except (EOFError, OSError):  # its end of the socket is closed: it is dead
                exit_code = self.end()
                self._process, self._connection = self._start()
        raise self._too_many_deaths(task, exit_code)

    def end(self) -> int:
        """Kill the process, which has nothing to save, and return its exit code."""
        self._connection.close()
        self._process.kill()
        return self._process.wait()

    def _try(self, task: LoaderTask) -> list[SkippedRecord]:
        buffer = task.buffer
        self._connection.send((task.wanted, buffer.offset, len(buffer.bytes), task.num_samples))
        while not self._connection.poll(POLL_SECONDS):
            if self._closed.is_set():
                return []
            if self._process.poll() is not None:  # dead, while a child of its own holds the socket open
                raise EOFError
        answer = self._connection.recv()
        if isinstance(answer, Exception):
            raise answer
        skipped: list[SkippedRecord] = answer
        return skipped

    def _start(self) -> tuple[subprocess.Popen[bytes], Connection]:
        ours, theirs = Pipe()
        # The same module path as here; signals to the process group are the parent's to handle.
        program = (
            "import signal, sys\n"
            "for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):\n"
            "    signal.signal(number, signal.SIG_IGN)\n"
            f"sys.path[:] = {sys.path!r}\n"
            "from mxtrain.data.loading.worker_loop import worker_loop\n"
            f"worker_loop({os.getpid()}, {theirs.fileno()}, {self._shared.descriptor})\n"
        )
        inherited = (theirs.fileno(), self._shared.descriptor, *self._assembly.records.descriptors)
        # One thread a worker: decoding has no use for teams, and their threads would fight over the cores.
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        process = _spawn(program, inherited, environment)
        theirs.close()
        try:
            ours.send(self._assembly)
        except OSError:
            pass  # it died at once, which `run` will notice
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            process.kill()
            process.wait()
            raise UsageError(
                f"--loader processes cannot send {self._assembly.reader} to a process ({error}): "
                "use --loader threads, or a function at the top of a module"
            ) from None
        return process, ours

    def _too_many_deaths(self, task: LoaderTask, exit_code: int) -> Exception:
        samples = task.wanted.samples
        where = f"{self._assembly.records.where(int(samples[0]))} and {len(samples) - 1} others"
        if exit_code == -signal.SIGKILL:
            return RestartMe(
                f"a loader worker was killed {MAX_DEATHS} times while it read {where}: by the kernel for want of "
                "memory? (dmesg tells) lower --prefetch-mb or --loader-workers and run the same command again to resume"
            )
        cause = signal.Signals(-exit_code).name if exit_code < 0 else f"exit code {exit_code}"
        return DataError(
            f"a loader worker died {MAX_DEATHS} times ({cause}) while it read {where}: look at these records with "
            f"`{command_name.packer()} check`, or use --loader threads to see more"
        )


def _spawn(program: str, inherited: Sequence[int], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a Python that runs `program` and has the files `inherited`, by posix_spawn.

    Where Python has files to close it forks, before 3.10, and MXNet has a fork wait until its engine is idle and then
    stop it. In a thread beside one that trains, that wait may be for ever
    (tests/e2e/fit/test_loading.py kills workers).
    """
    with _spawning:  # or another thread's process would have these files too
        for descriptor in inherited:
            os.set_inheritable(descriptor, True)
        try:
            return subprocess.Popen(
                [sys.executable, "-c", program], stdin=subprocess.DEVNULL, close_fds=False, env=environment
            )
        finally:
            for descriptor in inherited:
                os.set_inheritable(descriptor, False)
