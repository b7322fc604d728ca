"""One attempt of a group of processes: they start together, and when one ends, all end.

Owns starting, waiting and ending, each bounded in time. Does not own what the exits mean (`exits.py`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Iterator

from mxtrain.core.die_with_parent import SUPERVISOR_PID
from mxtrain.core.errors import DONE, RESTART_ME, SIGHUP, SIGINT, SIGTERM
from mxtrain.core.interrupts import is_ignored, is_second
from mxtrain.core.system import out_of_memory
from mxtrain.launch import logs
from mxtrain.launch.exits import FROM_MXNET, ProcessExit, ends_the_job, workers_or_all
from mxtrain.launch.plan import ProcessSpec

STOP_EXIT_CODES = {
    signal.SIGTERM: SIGTERM,
    signal.SIGINT: SIGINT,
    signal.SIGHUP: SIGHUP,
    signal.SIGUSR1: RESTART_ME,
}
POLL_SECONDS = 0.05
NUM_LAST_LINES = 10


@dataclasses.dataclass(frozen=True)
class GracePeriods:
    """The time that the other processes have to end by themselves, by what has happened."""

    death_seconds: float = 5.0  # after a death: they learn of it at once, and have nothing left to do
    done_seconds: float = 15.0  # after the end of a worker that was done: all are, and on their way out
    stop_seconds: float = 125.0  # after a stop request: one may still be writing a checkpoint
    kill_seconds: float = 3.0  # from SIGTERM to SIGKILL
    stopped_seconds: float = 15.0  # for one that SIGSTOP or a debugger holds: the others gave it up

    def after_exit(self, code: int, is_stop_requested: bool, has_workers: bool) -> float:
        """The seconds that remain after an exit with `code`.

        Where no worker is left (`has_workers`), servers and the scheduler have nothing to do.
        """
        if has_workers and (code in (SIGHUP, SIGINT, SIGTERM) or (is_stop_requested and code == RESTART_ME)):
            return self.stop_seconds
        return self.done_seconds if has_workers and code == DONE else self.death_seconds

    def for_stopped(self, is_stop_requested: bool, remaining_seconds: float) -> float:
        """The seconds for which a process may be stopped by SIGSTOP when the others have so many left.

        It has no way to write a checkpoint or to end; after a stop request it may yet be continued.
        """
        if remaining_seconds <= self.death_seconds:
            return 0.0
        return min(self.stopped_seconds, self.death_seconds) if is_stop_requested else self.stopped_seconds


@dataclasses.dataclass
class StopRequests:
    """The signals to the supervisor: the first asks for a checkpoint and the end, a second for the end at once."""

    signals: list[int] = dataclasses.field(default_factory=list)
    first_seconds: float = 0.0

    def handle(self, number: int, frame: Any) -> None:
        """Take a signal, as its handler."""
        if not self.signals:
            self.first_seconds = time.monotonic()
        elif not is_second(number, self.first_seconds):
            return
        self.signals.append(number)

    @property
    def exit_code(self) -> int | None:
        """The exit code that the first signal asks for; None without any."""
        return STOP_EXIT_CODES[signal.Signals(self.signals[0])] if self.signals else None


@contextlib.contextmanager
def stop_requests() -> Iterator[StopRequests]:
    """Collect signals within the block; Python's sleep goes on after a handler, so they are read at the next poll."""
    received = StopRequests()
    handled = [number for number in STOP_EXIT_CODES if not is_ignored(number)]
    before = {number: signal.signal(number, received.handle) for number in handled}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_attempt(
    processes: list[ProcessSpec], attempt: int, grace: GracePeriods, requests: StopRequests
) -> list[ProcessExit]:
    """Start all processes, wait until all have ended, and return their exits in the order in which they came.

    `attempt` is its number, for the logs; `requests` are read while it lasts.
    """
    group = _Attempt(processes, attempt)
    try:
        group.start(requests)
        _wait(group, grace, requests)
    finally:
        group.close()
    return group.exits


def _wait(group: _Attempt, grace: GracePeriods, requests: StopRequests) -> None:
    deadline, signals_left, num_handled = float("inf"), [signal.SIGTERM, signal.SIGKILL], 0
    while group.running:
        exits = group.poll()
        now = time.monotonic()
        for each in exits:
            has_workers = group.has_workers() and not ends_the_job(each)
            deadline = min(deadline, now + grace.after_exit(each.code, bool(requests.signals), has_workers))
        if len(requests.signals) > num_handled:
            num_handled = len(requests.signals)
            if num_handled == 1:
                group.forward(requests.signals[0])
                deadline = min(deadline, now + grace.stop_seconds)
            else:
                deadline, signals_left = now, [signal.SIGKILL]
        group.kill_stopped(grace.for_stopped(bool(requests.signals), deadline - now))
        if now >= deadline:
            if not signals_left:
                return  # what survives SIGKILL hangs in the kernel, and dies when it returns from there
            group.terminate(signals_left.pop(0))
            deadline = now + grace.kill_seconds
        if group.running:
            time.sleep(POLL_SECONDS)


class _Attempt:
    """The processes of one attempt; the terminal shows the first worker's output, or that of the only process."""

    def __init__(self, processes: list[ProcessSpec], attempt: int):
        self.running: dict[ProcessSpec, subprocess.Popen[bytes]] = {}
        self.exits: list[ProcessExit] = []
        self._processes, self._attempt = processes, attempt
        self._readers: dict[ProcessSpec, logs.LogReader] = {}
        self._terminated: set[ProcessSpec] = set()
        self._num_polls_stopped: dict[ProcessSpec, int] = {}
        self._workers = workers_or_all(processes)
        self._shown = self._workers[0]
        self._started_seconds, self._num_killed_before = time.monotonic(), out_of_memory.num_killed()

    def start(self, requests: StopRequests) -> None:
        """Start all, from the main thread: each dies with the thread that started it."""
        for process in self._processes:
            if requests.signals and self.running:  # nothing has begun without the others
                self.terminate(signal.SIGKILL)
                return
            with logs.open_log(process, self._attempt) as log, os.fdopen(
                os.memfd_create("stdin"), "w+b"
            ) as stdin:
                stdin.write(process.stdin.encode())
                stdin.seek(0)
                self._readers[process] = logs.LogReader(process)
                with _signals_blocked():
                    self.running[process] = subprocess.Popen(
                        process.argv,
                        env={**os.environ, **process.environment, SUPERVISOR_PID: str(os.getpid())},
                        stdin=stdin,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,  # Ctrl-C on the terminal is the supervisor's alone
                    )

    def has_workers(self) -> bool:
        """True while a worker runs; where there are none, while any process does."""
        return any(process in self._workers for process in self.running)

    def poll(self) -> list[ProcessExit]:
        """Print what the shown process has written, and return the exits since the last poll."""
        num_before = len(self.exits)
        for process, child in list(self.running.items()):
            limits = out_of_memory.limits(child.pid)  # Linux knows them until the child is waited for
            if child.poll() is not None:
                self._record_exit(process, child.returncode, self._known_of_memory(child.returncode, limits))
        if self._shown in self._readers:
            self._readers[self._shown].show()
        return self.exits[num_before:]

    def _known_of_memory(self, code: int, limits: dict[str, int]) -> str:
        """Return what speaks for a shortage of memory where a process ended with `code`, minus a signal's number."""
        if code == -signal.SIGKILL and out_of_memory.num_killed() > self._num_killed_before:
            return "this host ran out of memory, and Linux killed a process for it"
        if code in (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS, FROM_MXNET) and limits:
            return f"its memory is limited to {out_of_memory.in_words(limits)} and may have run out"
        return ""

    def _record_exit(self, process: ProcessSpec, code: int, memory: str = "") -> None:
        del self.running[process]
        lasted_seconds = time.monotonic() - self._started_seconds
        last_lines = tuple(self._readers[process].last_lines(NUM_LAST_LINES))
        was_terminated, was_shown = process in self._terminated, process is self._shown
        self.exits.append(
            ProcessExit(process, code, lasted_seconds, was_terminated, was_shown, last_lines, memory)
        )

    def forward(self, number: int) -> None:
        """Send a signal to the workers, who agree on the step to stop at."""
        self._num_polls_stopped.clear()  # whoever signals may be about to continue what it has stopped
        for process, child in self.running.items():
            if process in self._workers:
                child.send_signal(number)

    def terminate(self, number: int) -> None:
        """Send a signal to all that still run, which counts as not having ended by themselves."""
        for process, child in self.running.items():
            self._terminated.add(process)
            child.send_signal(number)

    def kill_stopped(self, seconds: float) -> None:
        """Kill those that have been stopped for longer, by SIGSTOP or a debugger.

        Polls are counted and not seconds: while all were stopped together, this supervisor too, none is to blame.
        """
        for process, child in self.running.items():
            num_polls = self._num_polls_stopped.get(process, 0) + 1 if is_stopped(child.pid) else 0
            self._num_polls_stopped[process] = num_polls
            if num_polls * POLL_SECONDS > seconds:
                if process not in self._terminated:
                    logs.print_message(f"{process.name} is held by SIGSTOP or a debugger; killed")
                self._terminated.add(process)
                child.kill()

    def close(self) -> None:
        """Kill what still runs, however the wait ended."""
        self.terminate(signal.SIGKILL)
        for process, child in list(self.running.items()):
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(1)
            self._record_exit(process, -signal.SIGKILL)
        for reader in self._readers.values():
            reader.close()


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    """Block signals in a child until its `die_with_parent`: Python's own start is no time for them."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_EXIT_CODES)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def is_stopped(pid: int) -> bool:
    """True where the kernel lists it as stopped; a child that has ended is listed until it is waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    except OSError:
        return False
