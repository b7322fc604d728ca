"""A process's own end of the control line: it comes to the roll call, shows signs of life, adds up small numbers.

A thread of its own beats and listens. What it hears ends the process at once (`leave`), whatever the main thread
hangs in, and so does hearing nothing. `watch` is the other end.
"""

from __future__ import annotations

import contextlib
import dataclasses
import faulthandler
import os
import platform
import queue
import socket
import threading
import time
import traceback
from pathlib import Path
from typing import Any, Iterator, NoReturn, Sequence

import numpy as np

from mxtrain.cluster import rendezvous, unix_sockets, verdicts
from mxtrain.cluster.channel import MAX_RAW_BYTES, Channel, Closed, Malformed
from mxtrain.cluster.environment import NodeSpec, is_loopback
from mxtrain.cluster.ps_threads import EngineThreads
from mxtrain.cluster.rendezvous import Assignment
from mxtrain.cluster.verdicts import Verdict
from mxtrain.core.errors import (
    BUG,
    DONE,
    RESTART_ME,
    USAGE,
    RestartMe,
    Stop,
    Stopped,
    UsageError,
    as_stop,
    message_of,
)

CONNECT_SECONDS = 5.0
AGAIN_SECONDS = 0.05
FAREWELL_SECONDS = 1.0  # for a scheduler slow to come, so that the others hear of a signal to this one
FAIL_SECONDS = 1.0
LOCKED_SECONDS = 300.0


@dataclasses.dataclass(frozen=True)
class Timeouts:
    """How long is too long, in seconds: until all have come, without a sign of life, without progress."""

    start: float
    silence: float
    stall: float

    @property
    def beat(self) -> float:
        """Between two signs of life."""
        return min(1.0, self.silence / 5, self.stall / 5)


def join(
    cluster: NodeSpec, card: dict[str, Any], times: Timeouts, stop_requests: Sequence[Stop] = ()
) -> Agent:
    """Come to the roll call and wait for its end; `card` is what rollcall.Card holds beside who and where.

    The first of `wishes` ends it, and all who have come: nothing has begun that would have to be saved.
    """
    hello = rendezvous.hello(cluster, rendezvous.card_of({**_identity(cluster), **card}))
    member = Agent(cluster, _connect(cluster, times.start, stop_requests), times, hello)
    member._await_go(stop_requests)
    return member


class Agent:
    """One process in its group; as a context manager it carries an exception to all others."""

    go: Assignment

    def __init__(self, cluster: NodeSpec, line: Channel, times: Timeouts, hello: dict[str, Any]):
        self.name = cluster.name
        self._cluster, self._line, self._times = cluster, line, times
        self._sending = threading.Lock()
        self._inbox: queue.SimpleQueue[bytes | Assignment | Verdict] = queue.SimpleQueue()
        self._mark: tuple[str, int, float] = ("", -1, time.monotonic())
        self._num_sums = 0
        self._engine: EngineThreads | None = None
        self._late = self._joined = self._waiting = self._finished = False
        # A forked child would keep the line open after this process's death.
        os.register_at_fork(after_in_child=line.close)
        # Before any sign of life; where it does not fit at once, those take the rest along.
        with contextlib.suppress(Closed):
            line.send(hello)
        threading.Thread(target=self._watch, name="control line", daemon=True).start()

    @property
    def rank(self) -> int:
        return self.go.rank

    @property
    def world_size(self) -> int:
        return self.go.num_workers

    @property
    def is_writer(self) -> bool:
        return self.go.is_writer

    @property
    def local_workers(self) -> int:
        return self.go.local_workers

    @property
    def job(self) -> str:
        return self.go.job

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or self._finished:
            return
        stop = as_stop(error)
        if stop is not None:
            self.fail(stop.exit_code, str(stop))
        verdicts.say("".join(traceback.format_exception(kind, error, trace)))
        self.fail(BUG, message_of(error) + verdicts.place(*self._mark[:2]))

    def report_progress(self, phase: str, step: int) -> None:
        """Progress was made; the next beat carries it."""
        self._mark = (phase, step, time.monotonic())

    def heartbeat(self) -> None:
        """Progress was made within what was told last."""
        self.report_progress(*self._mark[:2])

    def sum(self, values: Any) -> np.ndarray[Any, Any]:
        """The sum of all workers' `values` in float64, the same bits everywhere; every worker has to call it."""
        mine = np.ascontiguousarray(values, dtype="<f8")
        if mine.nbytes > MAX_RAW_BYTES:
            raise ValueError(f"{mine.nbytes} bytes are too many for the control line; this is for small sums")
        self._waiting = True
        self._say({"kind": "sum", "number": self._num_sums}, mine.tobytes())
        total = self._next()
        assert isinstance(total, bytes)
        self._num_sums += 1
        self.heartbeat()
        self._waiting = False
        return np.frombuffer(total, dtype="<f8").reshape(mine.shape).astype(np.float64)

    @contextlib.contextmanager
    def over_engine(self) -> Iterator[None]:
        """While the block lasts, ps-lite is at work in it; that it has ended before is the end of the job."""
        self._engine = EngineThreads()
        try:
            yield
        finally:
            self._engine = None

    def finish(self, exit_code: int = DONE, reason: str = "") -> None:
        """All that this process had to do is done and on disk; returns when that is so everywhere.

        Where all workers have agreed to stop before the end, servers and scheduler hear with which code and why.
        """
        self._finished = True
        self._say({"kind": "finish", "exit_code": exit_code, "reason": reason})
        self._next()

    def fail(self, exit_code: int, reason: str) -> NoReturn:
        """End the whole job, this process included, with this code and this reason."""
        self._say({"kind": "fail", "exit_code": exit_code, "reason": verdicts.readable(reason)})
        time.sleep(FAIL_SECONDS)  # the watch spreads it, and its answer ends this process before that
        verdicts.leave(Verdict(exit_code, f"{self.name}: {reason}"), self.name)

    def _await_go(self, stop_requests: Sequence[Stop]) -> None:
        seconds = self._times.start + 2 * self._times.silence
        deadline = time.monotonic() + seconds
        while self._inbox.empty():
            if stop_requests:
                self.fail(stop_requests[0].exit_code, str(stop_requests[0]))
            if time.monotonic() > deadline and not self._late:
                raise RestartMe(f"{self.name}: no answer from the scheduler in {seconds:g} s")
            time.sleep(AGAIN_SECONDS)
        found = self._next()
        if isinstance(found, Verdict):
            raise Stopped(f"{self.name}: the job is done, without it", DONE)
        assert isinstance(found, Assignment)
        self.go = found

    def _next(self) -> bytes | Assignment | Verdict:
        """What the watch has for the main thread; as long as the scheduler is heard, the others are at work."""
        found = self._inbox.get()
        if isinstance(found, Verdict) and found.exit_code:
            raise found.as_stop()
        return found

    def _say(self, message: dict[str, Any], raw: bytes = b"") -> None:
        """Send all of it; bounded by the listening thread, which also learns why a line is closed."""
        with self._sending, contextlib.suppress(Closed):
            self._line.send(message, raw)
            while self._line.unsent:
                self._line.wait_for_room(self._times.beat)
                self._line.flush()

    def _watch(self) -> None:
        where = f"{self._cluster.root}:{self._cluster.port}"
        try:
            verdict = self._listen()
        except Closed as problem:
            verdict = Verdict(RESTART_ME, f"{self.name}: the scheduler at {where} has gone ({problem})")
        except Malformed as problem:
            # In a later life somebody else may have taken the port, which the one after it may find free.
            code = RESTART_ME if self._joined or self._cluster.is_restart else USAGE
            verdict = Verdict(
                code, f"{self.name}: what listens at {where} is no scheduler of mxtrain ({problem})"
            )
        except Exception as error:
            verdict = Verdict(RESTART_ME, f"{self.name}: the control line broke ({error!r})")
        faulthandler.cancel_dump_traceback_later()
        if self._joined and (verdict.exit_code or self._cluster.role == "server"):
            verdicts.leave(verdict, self.name)
        self._inbox.put(verdict)
        if not self._joined:
            self._line.close()

    def _listen(self) -> Verdict:
        """Beat and hear until the end of the job; in the scheduler's own process the watch ends it, unheard here."""
        heard = beaten = looked = time.monotonic()
        self._guard()
        while True:
            # Taken before the network is looked at: a process that was frozen first hears what it missed.
            now = time.monotonic()
            # Frozen itself, perhaps with all others: time starts anew.
            if now - looked > self._times.silence / 2:
                heard = now
                self.heartbeat()
            looked = now
            if now - heard > self._times.silence:
                return Verdict(
                    RESTART_ME, f"{self.name}: heard nothing from the scheduler for {now - heard:.1f} s"
                )
            if now - beaten >= self._times.beat:
                engine = self._engine
                if engine is not None and engine.have_ended():
                    self.fail(RESTART_ME, "ps-lite has ended here, though nobody of this job has asked it to")
                self._beat(now)
                beaten = now
            if not self._line.wait(beaten + self._times.beat - now):
                continue
            for message, raw in self._line.receive():
                heard = time.monotonic()
                if message["kind"] == "total":
                    self._inbox.put(raw)
                elif message["kind"] == "late":
                    self._late = True
                    verdicts.say(
                        f"mxtrain.fit: {self.name} comes too late and waits for the job's next life\n"
                    )
                elif message["kind"] == "go":
                    self._joined = True
                    self.report_progress("", -1)
                    self._inbox.put(Assignment(**message["go"]))
                elif message["kind"] == "verdict":
                    return verdicts.of_message(message)

    def _guard(self) -> None:
        """Should the main thread hold Python's lock for good, no thread of Python's could leave; this one is C's."""
        faulthandler.dump_traceback_later(LOCKED_SECONDS + self._times.silence, exit=True, file=2)

    def _beat(self, now: float) -> None:
        self._guard()
        if self._sending.acquire(blocking=False):  # else the main thread is sending, a sign of life too
            try:
                phase, step, marked = self._mark
                # The roll call is slow without anybody's fault, and a sum by another's.
                idle = now - marked if self._joined and not self._waiting else 0.0
                with contextlib.suppress(Closed):  # reading tells why
                    self._line.send({"kind": "beat", "phase": phase, "step": step, "idle": idle})
            finally:
                self._sending.release()


def _identity(cluster: NodeSpec) -> dict[str, Any]:
    return {
        "role": cluster.role,
        "node": cluster.name,
        "host": platform.node(),
        "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        "pid": os.getpid(),
        # Containers may share a host and its boot, but not its network.
        "sockets": unix_sockets.place(os.environ) if is_loopback(cluster.root) else "",
    }


def _connect(cluster: NodeSpec, seconds: float, stop_requests: Sequence[Stop]) -> Channel:
    """A line to the scheduler, who may come later than we."""
    deadline, is_leaving = time.monotonic() + seconds, False
    address = (cluster.root, cluster.port)
    while True:
        if stop_requests and not is_leaving:
            deadline, is_leaving = min(deadline, time.monotonic() + FAREWELL_SECONDS), True
        remaining = deadline - time.monotonic()
        try:
            connection = socket.create_connection(address, timeout=max(0.1, min(CONNECT_SECONDS, remaining)))
            # Trying a port of the ephemeral range again and again can end in a connection with oneself.
            if connection.getsockname() != connection.getpeername():
                return Channel(connection, MAX_RAW_BYTES)
            connection.close()
            problem = "nobody listens"
        except OSError as error:
            problem = error.strerror or str(error)
        if remaining <= 0:
            if is_leaving:
                raise stop_requests[0]
            stop = RestartMe if cluster.is_restart else UsageError
            raise stop(
                f"{cluster.name}: no scheduler at {cluster.root}:{cluster.port} in {seconds:g} s ({problem}); start "
                f"it, and give its own address and port as {cluster.given_as}"
            )
        time.sleep(AGAIN_SECONDS)
