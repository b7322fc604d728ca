"""A process's own end of the control channel: joining the rendezvous, heartbeats, progress, and sums of numbers.

A thread of its own sends heartbeats and listens. A verdict that it receives ends the process at once, whatever the main
thread is blocked in, and so does a silent scheduler. Owns this process's part; `coordinator.py` is the other end.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import queue
import threading
import time
import traceback
from collections import deque
from typing import Any, NoReturn, Sequence

import numpy as np
import numpy.typing as npt

from mxtrain.cluster import ports, ps_lite, unix_sockets, verdicts
from mxtrain.cluster.admission import membership, rendezvous
from mxtrain.cluster.admission.assignment import Assignment
from mxtrain.cluster.channel import MAX_RAW_BYTES, Channel, Closed, Timeouts
from mxtrain.cluster.environment import NodeSpec
from mxtrain.cluster.gateway.start import GatewayProcess, HostGateway
from mxtrain.cluster.verdicts import Verdict
from mxtrain.cluster.worker_group import Peer, WorkerGroup
from mxtrain.core import errors
from mxtrain.core.errors import BUG, DONE, RESTART_ME, OutOfMemory, RestartMe, Stop, Stopped, as_stop

POLL_SECONDS, RETRY_SECONDS, FAIL_SECONDS, GIL_SECONDS = 0.05, 1.0, 1.0, 300.0
GATEWAY_END_SECONDS = 0.5  # in which a gateway that has closed a channel is known to have ended
NUMBERS_IN_MESSAGE = MAX_RAW_BYTES // 8  # of a sum; more go one message after the other
MOST_NOTES = 1000  # that wait to be read, of which the oldest are dropped


def join(
    node: NodeSpec,
    fields: dict[str, Any],
    timeouts: Timeouts,
    stop_requests: Sequence[Stop] = (),
    gateway: GatewayProcess | None = None,
) -> Agent:
    """Join the rendezvous and wait for its end; return the agent with its assignment.

    `fields` are those of `rendezvous.describe`. The first of `stop_requests` ends the wait, and the job: nothing has
    begun that would have to be saved. `gateway` is the scheduler's.
    """
    verdicts.write_stacks_at_signal()
    own_gateway = HostGateway(node, timeouts.start, gateway) if node.secret else None
    fields = fields if own_gateway is None else {**fields, "gateway": own_gateway.address}
    info = rendezvous.describe(node, fields)
    deadline = time.monotonic() + timeouts.start
    while True:
        channel = ports.connect(node, timeouts.start, stop_requests)
        job = membership.remembered(node.memory)
        agent = Agent(node, channel, timeouts, {**rendezvous.join_message(node, info), "job": job})
        try:
            agent._await_assignment(stop_requests)
            agent._gateway = own_gateway
            if own_gateway is not None:
                own_gateway.settle(agent.assignment.here, agent.assignment.elsewhere)
            return agent
        except RestartMe:  # another job may have the port only until nobody comes to it
            if agent.is_admitted or node.memory is None or not node.is_restart or time.monotonic() > deadline:
                raise
        time.sleep(RETRY_SECONDS)


class Agent(WorkerGroup):
    """One process of the job; as a context manager it reports an exception to all others."""

    assignment: Assignment

    def __init__(self, node: NodeSpec, channel: Channel, timeouts: Timeouts, join_message: dict[str, Any]):
        self.name, self._node, self._channel, self._timeouts = node.name, node, channel, timeouts
        self._sending = threading.Lock()
        self._inbox: queue.SimpleQueue[bytes | Assignment | Verdict] = queue.SimpleQueue()
        self._progress: tuple[str, int, float] = ("", -1, time.monotonic())
        self._note: dict[str, Any] | None = None  # that the next heartbeat takes along
        self._heard: deque[dict[str, Any]] = deque(maxlen=MOST_NOTES)
        self._gateway: HostGateway | None = None
        self._num_sums = 0
        self._is_late = self._is_assigned = self._in_sum = self._has_finished = False
        self._has_heard = self.is_admitted = False
        # A forked child would keep the channel open after this process's death.
        os.register_at_fork(after_in_child=channel.close)
        # Before any heartbeat; those also send the rest of it if the network does not take it at once.
        with contextlib.suppress(Closed):
            channel.send(join_message)
        threading.Thread(target=self._run, name="control channel", daemon=True).start()

    @property
    def rank(self) -> int:
        return self.assignment.rank

    @property
    def world_size(self) -> int:
        return self.assignment.num_workers

    @property
    def is_writer(self) -> bool:
        return self.assignment.is_writer

    @property
    def is_first_on_host(self) -> bool:
        return self.assignment.is_first_on_host

    @property
    def local_workers(self) -> int:
        return self.assignment.local_workers

    @property
    def local_servers(self) -> int:
        return self.assignment.local_servers

    @property
    def job(self) -> str:
        return self.assignment.job

    @property
    def hosts(self) -> Sequence[str]:
        return self.assignment.hosts

    @property
    def peers(self) -> Sequence[Peer]:
        return [Peer(*each) for each in self.assignment.peers]

    @property
    def owners(self) -> Sequence[int]:
        return self.assignment.owners

    @property
    def memory_sockets(self) -> Sequence[int]:
        return self.assignment.memory_sockets

    @property
    def remarks(self) -> Sequence[str]:
        return self.assignment.remarks

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, error_type: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or self._has_finished:
            return
        stop = as_stop(error)
        if stop is None or isinstance(stop, OutOfMemory):
            verdicts.write_stderr("".join(traceback.format_exception(error_type, error, trace)))
        if stop is not None:
            self.fail(stop.exit_code, str(stop))
        self.fail(BUG, errors.message_of(error) + verdicts.describe_progress(*self._progress[:2]))

    def report_progress(self, phase: str | None = None, step: int | None = None) -> None:
        last_phase, last_step, _ = self._progress
        phase, step = (last_phase if phase is None else phase), (last_step if step is None else step)
        self._progress = phase, step, time.monotonic()

    def send_note(self, note: dict[str, Any]) -> None:
        self._note = note

    def heard(self) -> list[dict[str, Any]]:
        return [self._heard.popleft() for _ in range(len(self._heard))]

    def sum(self, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
        own = np.ascontiguousarray(values, dtype="<f8")
        total = np.empty(own.size)
        # At least one message, so that workers wait for each other even where there is nothing to add.
        for begin in range(0, max(own.size, 1), NUMBERS_IN_MESSAGE):
            piece = slice(begin, begin + NUMBERS_IN_MESSAGE)
            total[piece] = np.frombuffer(self._sum_of_bytes(own.ravel()[piece].tobytes()), dtype="<f8")
        return total.reshape(own.shape)

    def _sum_of_bytes(self, own: bytes) -> bytes:
        self._in_sum = True
        self._send({"kind": "sum", "sequence": self._num_sums}, own)
        total = self._receive()
        assert isinstance(total, bytes)
        self._num_sums += 1
        self.report_progress()
        self._in_sum = False
        return total

    def finish(self, exit_code: int = DONE, reason: str = "") -> None:
        """Report that this worker's work is done and on disk; return when that is true of all workers.

        If all workers have agreed to stop early, `exit_code` and `reason` tell servers and scheduler why.
        """
        self._has_finished = True
        self._send({"kind": "finish", "exit_code": exit_code, "reason": reason})
        self._receive()

    def fail(self, exit_code: int, reason: str) -> NoReturn:
        """End the whole job, this process included, with this exit code and reason."""
        self._send({"kind": "fail", "exit_code": exit_code, "reason": verdicts.as_one_line(reason)})
        time.sleep(FAIL_SECONDS)  # the coordinator's verdict arrives and ends this process before that
        verdicts.exit_process(Verdict(exit_code, f"{self.name}: {reason}"), self.name)

    def _await_assignment(self, stop_requests: Sequence[Stop]) -> None:
        seconds = self._timeouts.start + 2 * self._timeouts.silence
        deadline = time.monotonic() + seconds
        while self._inbox.empty():
            if stop_requests:
                self.fail(stop_requests[0].exit_code, str(stop_requests[0]))
            if time.monotonic() > deadline and not self._is_late:
                raise RestartMe(f"{self.name}: no answer from the scheduler in {seconds:g} s")
            time.sleep(POLL_SECONDS)
        if isinstance(answer := self._receive(), Verdict):
            raise Stopped(f"{self.name}: the job is done, without it", DONE)
        assert isinstance(answer, Assignment)
        self.assignment = answer

    def _receive(self) -> bytes | Assignment | Verdict:
        """Return the coordinator's next answer; waits without limit, as the listening thread ends a lost job."""
        answer = self._inbox.get()
        if isinstance(answer, Verdict) and answer.exit_code:
            raise answer.as_stop()
        return answer

    def _send(self, message: dict[str, Any], raw: bytes = b"") -> None:
        """Send all of a message; the listening thread ends a wait that lasts, and learns why a channel is closed."""
        with self._sending, contextlib.suppress(Closed):
            self._channel.send(message, raw)
            while self._channel.has_unsent:
                self._channel.wait_writable(self._timeouts.heartbeat)
                self._channel.flush()

    def _run(self) -> None:
        """Listen until the end of the job, and end the process or pass the verdict to the main thread."""
        try:
            verdict = self._listen()
        except Exception as error:
            verdict = ports.broken(self._node, error, self._is_assigned)
        # Its death may close the channel, or a stream whose loss another process reports, before anybody has looked.
        gateway = self._gateway if verdict.exit_code == RESTART_ME else None
        if gateway is not None and (end := gateway.end(GATEWAY_END_SECONDS)):
            verdict = Verdict(RESTART_ME, f"{self.name}: {end}")
        faulthandler.cancel_dump_traceback_later()
        if self._is_assigned and (verdict.exit_code or self._node.role == "server"):
            verdicts.exit_process(verdict, self.name)
        self._inbox.put(verdict)
        if not self._is_assigned:
            self._channel.close()

    def _listen(self) -> Verdict:
        """Send heartbeats and receive until the verdict; the scheduler's own process exits without it."""
        last_heard = last_sent = last_turn = last_look = time.monotonic()
        self._arm_exit_timer()
        while True:
            # Read before the network: a process that was frozen first receives what it missed.
            now = time.monotonic()
            if now - last_turn > self._timeouts.silence / 2:  # frozen itself, perhaps with all others
                last_heard = now
                self.report_progress()
            last_turn = now
            if now - last_heard > self._timeouts.silence:
                return ports.silence(self._node, now - last_heard, self._has_heard)
            if now - last_look >= ps_lite.POLL_SECONDS:
                self._check_ps_lite()
                last_look = now
            if now - last_sent >= self._timeouts.heartbeat:
                self._send_heartbeat(now)
                last_sent = now
            due = min(last_sent + self._timeouts.heartbeat, last_look + ps_lite.POLL_SECONDS)
            for message, raw in self._channel.receive() if self._channel.wait_readable(due - now) else ():
                last_heard, self._has_heard = time.monotonic(), True
                if message["kind"] == "verdict":
                    return verdicts.from_message(message)
                self._handle(message, raw)

    def _handle(self, message: dict[str, Any], raw: bytes) -> None:
        if message["kind"] == "total":
            self._inbox.put(raw)
        elif message["kind"] == "note":
            self._heard.append(message["note"])
        elif message["kind"] == "admitted":
            self.is_admitted = True
            # The scheduler has to know its last one by its assignment.
            if message["job"] or self._node.role != "scheduler":
                membership.remember(self._node.memory, str(message["job"]))
        elif message["kind"] == "late":
            self._is_late = True
            verdicts.write_late(self.name, message["reason"])
        elif message["kind"] == "assignment":
            self._is_assigned = True
            self.report_progress("", -1)
            assignment = Assignment(**message["assignment"])
            membership.remember(self._node.memory, assignment.job)
            self._inbox.put(assignment)

    def _arm_exit_timer(self) -> None:
        """Let C code end this process if the main thread never releases Python's lock: no Python thread could."""
        faulthandler.dump_traceback_later(GIL_SECONDS + self._timeouts.silence, exit=True, file=2)

    def _check_ps_lite(self) -> None:
        if self._gateway is not None and (end := self._gateway.end()):
            self.fail(RESTART_ME, end)
        if self._is_assigned and ps_lite.THREADS.have_ended():
            self.fail(RESTART_ME, f"ps-lite has ended here: {ps_lite.STRANGERS}")
        # The scheduler's is one that the others connect to twice: `coordinator.py` sees to that.
        if self._node.role != "scheduler":
            unix_sockets.unname()

    def _send_heartbeat(self, now: float) -> None:
        self._arm_exit_timer()
        if self._sending.acquire(blocking=False):  # else the main thread is sending, which is as good
            try:
                phase, step, reported = self._progress
                # The rendezvous is slow without anybody's fault, and a sum by another worker's.
                idle = now - reported if self._is_assigned and not self._in_sum else 0.0
                note, self._note = self._note, None
                with contextlib.suppress(Closed):  # reading tells why
                    report = {"phase": phase, "step": step, "idle": idle, "ps_lite": ps_lite.THREADS.stage}
                    self._channel.send({"kind": "heartbeat", **report})
                    if note is not None:
                        self._channel.send({"kind": "note", "note": note})
            finally:
                self._sending.release()
