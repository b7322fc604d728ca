"""One life of a group of processes: they start together, and when one ends, all end.

Owns starting, waiting and ending, each bounded in time. What the endings mean is `supervisor.py`'s.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Iterator

from mxtrain.core.die_with_parent import SUPERVISOR_PID
from mxtrain.core.errors import DONE, RESTART_ME, SIGINT, SIGTERM
from mxtrain.core.interrupts import SAME_REQUEST_SECONDS
from mxtrain.launch import logs
from mxtrain.launch.plan import SCHEDULER, WORKER, Process

STOPS = {signal.SIGTERM: SIGTERM, signal.SIGINT: SIGINT, signal.SIGUSR1: RESTART_ME}
POLL_SECONDS = 0.05
NUM_LAST_LINES = 10


@dataclasses.dataclass(frozen=True)
class GracePeriod:
    """How long the others may take to end."""

    death_seconds: float = 5.0  # after a death: they hear of it at once, and have nothing left to do
    done_seconds: float = 15.0  # after the end of a worker that was done: all are, and on their way out
    stop_seconds: float = 125.0  # after a wish to stop: one may still be writing a checkpoint
    kill_seconds: float = 3.0  # from SIGTERM to SIGKILL
    stopped_seconds: float = 15.0  # for one that SIGSTOP or a debugger holds: the others gave it up

    def after(self, code: int, is_wished: bool, is_at_work: bool) -> float:
        """From one's end with `code` on; servers and schedulers have nothing to do when no worker is left."""
        if is_at_work and (code in (SIGINT, SIGTERM) or (is_wished and code == RESTART_ME)):
            return self.stop_seconds
        return self.done_seconds if is_at_work and code == DONE else self.death_seconds

    def with_stopped(self, is_wished: bool, deadline_seconds: float) -> float:
        """Who cannot move has neither a checkpoint to write nor a way to end; after a wish it may yet be let go."""
        if deadline_seconds <= self.death_seconds:
            return 0.0
        return min(self.stopped_seconds, self.death_seconds) if is_wished else self.stopped_seconds


@dataclasses.dataclass(frozen=True)
class Ending:
    """How a process ended: `code` is its exit code, or minus the signal that killed it."""

    process: Process
    code: int
    lasted_seconds: float
    was_terminated: bool  # it did not end by itself
    was_shown: bool
    last_lines: tuple[str, ...]


@dataclasses.dataclass
class StopRequests:
    """The signals to the supervisor: the first asks for a checkpoint and the end, a second for the end at once."""

    numbers: list[int] = dataclasses.field(default_factory=list)
    first_seconds: float = 0.0

    def take(self, number: int, frame: Any) -> None:
        if not self.numbers:
            self.first_seconds = time.monotonic()
        elif time.monotonic() - self.first_seconds < SAME_REQUEST_SECONDS:
            return
        self.numbers.append(number)

    @property
    def exit_code(self) -> int | None:
        return STOPS[signal.Signals(self.numbers[0])] if self.numbers else None


@contextlib.contextmanager
def stop_requests() -> Iterator[StopRequests]:
    """Signals become wishes; Python's sleep goes on after a handler, so they are looked at when it is time."""
    received = StopRequests()
    before = {number: signal.signal(number, received.take) for number in STOPS}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def live(
    processes: list[Process], generation: int, patience: GracePeriod, stop_requests: StopRequests
) -> list[Ending]:
    """Start all, and return how each ended, in the order in which they did."""
    group = _Group(processes, generation)
    try:
        group.start(stop_requests)
        _watch(group, patience, stop_requests)
    finally:
        group.close()
    return group.endings


def _watch(group: _Group, patience: GracePeriod, stop_requests: StopRequests) -> None:
    deadline, pushes, num_wishes = float("inf"), [signal.SIGTERM, signal.SIGKILL], 0
    while group.running:
        num_ended = len(group.endings)
        group.look()
        now = time.monotonic()
        for ending in group.endings[num_ended:]:
            is_at_work = group.is_at_work() and not _has_told(ending)
            deadline = min(
                deadline, now + patience.after(ending.code, bool(stop_requests.numbers), is_at_work)
            )
        if len(stop_requests.numbers) > num_wishes:
            num_wishes = len(stop_requests.numbers)
            if num_wishes == 1:
                group.forward(stop_requests.numbers[0])
                deadline = min(deadline, now + patience.stop_seconds)
            else:
                deadline, pushes = now, [signal.SIGKILL]
        group.kill_stopped(patience.with_stopped(bool(stop_requests.numbers), deadline - now))
        if now >= deadline:
            if not pushes:
                return  # what survives SIGKILL hangs in the kernel, and dies when it comes back
            group.push(pushes.pop(0))
            deadline = now + patience.kill_seconds
        if group.running:
            time.sleep(POLL_SECONDS)


def _has_told(ending: Ending) -> bool:
    """A scheduler that stops does so when all have saved, or have nothing to save: who is left has missed it."""
    return ending.process.role == SCHEDULER and ending.code != DONE


def deciding(processes: list[Process]) -> list[Process]:
    """Whose work the job is: the workers; where none is among these, all."""
    return [process for process in processes if process.role == WORKER] or processes


class _Group:
    """The processes of one life; the first worker, or whoever is alone, is heard on the terminal."""

    def __init__(self, processes: list[Process], generation: int):
        self.running: dict[Process, subprocess.Popen[bytes]] = {}
        self.endings: list[Ending] = []
        self._processes, self._generation = processes, generation
        self._heard: dict[Process, logs.Heard] = {}
        self._pushed: set[Process] = set()
        self._num_looks_stopped: dict[Process, int] = {}
        self._deciding = deciding(processes)
        self._shown = self._deciding[0]
        self._started_seconds = time.monotonic()

    def start(self, stop_requests: StopRequests) -> None:
        """From the main thread: a tethered process dies with the thread that started it."""
        for process in self._processes:
            if stop_requests.numbers and self.running:  # nothing has begun without the others
                self.push(signal.SIGKILL)
                return
            with logs.opened(process, self._generation) as log, tempfile.TemporaryFile() as stdin:
                stdin.write(process.stdin.encode())
                stdin.seek(0)
                self._heard[process] = logs.Heard(process)
                with _signals_held_back():
                    self.running[process] = subprocess.Popen(
                        process.argv,
                        env={**os.environ, **process.environment, SUPERVISOR_PID: str(os.getpid())},
                        stdin=stdin,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,  # Ctrl-C on the terminal is the supervisor's alone
                    )

    def is_at_work(self) -> bool:
        return any(process in self._deciding for process in self.running)

    def look(self) -> None:
        """Take down who has ended, and show what has been said."""
        for process, child in list(self.running.items()):
            if child.poll() is not None:
                self._end(process, child.returncode)
        if self._shown in self._heard:
            self._heard[self._shown].show()

    def _end(self, process: Process, code: int) -> None:
        del self.running[process]
        lasted_seconds = time.monotonic() - self._started_seconds
        last_lines = tuple(self._heard[process].last(NUM_LAST_LINES))
        was_terminated, was_shown = process in self._pushed, process is self._shown
        self.endings.append(Ending(process, code, lasted_seconds, was_terminated, was_shown, last_lines))

    def forward(self, number: int) -> None:
        """To the workers, who agree on the step to stop at."""
        self._num_looks_stopped.clear()  # whoever signals may be about to let go of what it has stopped
        for process, child in self.running.items():
            if process in self._deciding:
                child.send_signal(number)

    def push(self, number: int) -> None:
        for process, child in self.running.items():
            self._pushed.add(process)
            child.send_signal(number)

    def kill_stopped(self, seconds: float) -> None:
        """Those that have been seen stopped for longer, by SIGSTOP or a debugger.

        Looks are counted and not seconds: while all were frozen together, this supervisor too, nobody is to blame.
        """
        for process, child in self.running.items():
            num_looks = self._num_looks_stopped.get(process, 0) + 1 if _is_stopped(child.pid) else 0
            self._num_looks_stopped[process] = num_looks
            if num_looks * POLL_SECONDS > seconds:
                if process not in self._pushed:
                    logs.say(f"{process.name} is held by SIGSTOP or a debugger; killed")
                self._pushed.add(process)
                child.kill()

    def close(self) -> None:
        """Leave nothing behind, however the watch ended."""
        self.push(signal.SIGKILL)
        for process, child in list(self.running.items()):
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(1)
            self._end(process, -signal.SIGKILL)
        for heard in self._heard.values():
            heard.close()


@contextlib.contextmanager
def _signals_held_back() -> Iterator[None]:
    """A child inherits it, and hears signals once it is tethered: Python's own start is no time for them."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _is_stopped(pid: int) -> bool:
    """By the kernel's own record; a child that has ended has one until it is waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    except OSError:
        return False
