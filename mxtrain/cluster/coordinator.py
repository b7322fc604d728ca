"""The scheduler's end of all control channels: rendezvous, failure detection, sums, and the verdict that ends the job.

One thread of the scheduler's process does all of it, and ends that process too. Owns the course of an attempt; does not
own sockets (`connections.py`), admission, ranks and the choice of a checkpoint (`admission/`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import socket
import threading
import time
from collections import deque
from typing import Any, Sequence

from mxtrain.cluster import connections, ports, stalls, unix_sockets, verdicts
from mxtrain.cluster.admission import membership, rendezvous, resume_step
from mxtrain.cluster.admission.assignment import assign_ranks
from mxtrain.cluster.admission.rendezvous import NodeInfo
from mxtrain.cluster.channel import Malformed, Message, Timeouts
from mxtrain.cluster.connections import UNAUTHENTICATED_SECONDS, Connection
from mxtrain.cluster.environment import NodeSpec
from mxtrain.cluster.gateway.start import GatewayProcess
from mxtrain.cluster.sums import PendingSum
from mxtrain.cluster.verdicts import Verdict
from mxtrain.core.errors import RESTART_ME, USAGE

logger = logging.getLogger(__name__)

BROADCAST_SECONDS = 0.4
DONE = Verdict(0, "")
# Exceptions that a message of a wrong shape leads to.
WRONG_SHAPE = (Malformed, ArithmeticError, LookupError, TypeError, ValueError)


def start(node: NodeSpec, info: NodeInfo, timeouts: Timeouts, min_workers: int = 0) -> GatewayProcess | None:
    """Open the port, and coordinate the job from a thread of this process; that thread ends the process.

    `info` describes this process, whose own agent may join after others. After `timeouts.start` the job starts with
    `min_workers` workers or more; 0 waits for all of them. Returns the gateway that has the port, if the job has
    gateways.
    """
    coordinator = Coordinator(node, info, timeouts, min_workers)
    threading.Thread(target=coordinator.run, name="coordinator", daemon=True).start()
    return coordinator.gateway


class Coordinator:
    """The state of a job in one attempt."""

    def __init__(self, node: NodeSpec, info: NodeInfo, timeouts: Timeouts, min_workers: int):
        self._node, self._info, self._timeouts, self._min_workers = node, info, timeouts, min_workers
        self._job_before = membership.remembered(node.memory)
        self._connections = connections.opened(node, timeouts.start)
        self.gateway = self._connections.gateway
        self._opened = time.monotonic()
        self._incidents: deque[str] = deque(maxlen=3)  # of the rendezvous: refused or lost processes
        # They may be another job's, and how they are refused then.
        self._guests: list[tuple[Connection, Verdict]] = []
        self._has_lost_one = False
        self._ps_port: socket.socket | None = None
        self._meeting = stalls.Meeting()
        self._sums: PendingSum | None = None  # None until the end of the rendezvous
        self._verdict: Verdict | None = None

    def run(self) -> None:
        """Coordinate until there is a verdict, and end this process with it."""
        try:
            self._serve()
        except Exception as error:
            logger.exception("the coordinator broke")
            self._verdict = Verdict(RESTART_ME, f"scheduler: the coordinator broke ({error!r})")
        verdict = self._verdict or DONE
        with contextlib.suppress(Exception):
            self._broadcast(verdict)
        verdicts.exit_process(verdict, self._node.name)

    def _serve(self) -> None:
        last_sent, last_turn = 0.0, time.monotonic()
        while self._verdict is None:
            # Read before the network: a scheduler that was frozen first receives what it missed.
            now = time.monotonic()
            if now - last_turn > self._timeouts.silence / 2:
                self._forgive_own_freeze(now)
            last_turn = now
            seconds = max(0.0, last_sent + self._timeouts.heartbeat - now)
            for connection, messages, lost in self._connections.receive(seconds):
                self._handle_all(connection, messages, lost)
            if now - last_sent >= self._timeouts.heartbeat:
                last_sent = now
                self._connections.send(self._connections.authenticated, {"kind": "heartbeat"})
                self._check_silence(now)
                self._check_stalls()
            if self._sums is None:
                self._check_rendezvous(now)

    def _handle_all(self, connection: Connection, messages: list[Message], lost: str) -> None:
        try:
            for message, raw in messages:
                self._handle(connection, message, raw)
        except WRONG_SHAPE as problem:
            lost = f"sent what nobody understands ({problem})"
        if lost:
            self._lose(connection, lost)

    def _handle(self, connection: Connection, message: dict[str, Any], raw: bytes) -> None:
        message_type = message["kind"]
        if connection.is_refused or connection.is_late:
            return
        if connection.info is None:
            self._authenticate(connection, message)
        elif message_type == "heartbeat":
            connection.phase, connection.step = str(message["phase"]), int(message["step"])
            connection.idle_seconds = float(message["idle"])
            connection.ps_lite = str(message["ps_lite"])
        elif message_type == "fail":
            self._decide(
                Verdict(int(message["exit_code"]) or 1, f"{connection.info.node}: {message['reason']}")
            )
        elif self._sums is None or connection.rank < 0:
            raise Malformed(f"a {message_type} at the wrong time")
        elif message_type == "sum":
            total = self._sums.add(connection.rank, int(message["sequence"]), raw)
            if total is not None:
                self._connections.send(self._workers(), {"kind": "total"}, total)
        elif message_type == "note":
            others = [worker for worker in self._workers() if worker is not connection]
            self._connections.send(others, {"kind": "note", "note": dict(message["note"])})
        elif message_type == "finish":
            connection.has_finished = True
            if all(worker.has_finished for worker in self._workers()):
                self._decide(Verdict(int(message["exit_code"]), str(message["reason"])))
        else:
            raise Malformed(f"a {message_type}")

    def _authenticate(self, connection: Connection, message: dict[str, Any]) -> None:
        """Admit the process that sent a join message, now or for the next attempt, or refuse it."""
        if message["kind"] != "join":
            raise Malformed("no join message")
        info = rendezvous.parse_node_info(message["node_info"])
        is_late, members = self._sums is not None, self._infos()
        foreign = membership.refusal(message, info, self._node, self._job_before, is_late)
        if foreign is not None and not (self._min_workers and info.role == "worker"):
            self._refuse(connection, foreign)
            return
        is_late = is_late or foreign is not None
        outranked = [] if is_late else membership.outranked(info, members, self._info, self._node)
        members = [each for each in members if each not in outranked]
        refusal = rendezvous.refusal(message, info, self._node, members)
        if refusal is None and is_late:
            refusal = rendezvous.failure([info])  # its own, for which it need not wait
        if refusal is not None:
            self._refuse(connection, refusal)
            return
        self._refuse_strays(outranked)
        logger.info("here: %s%s", info, ", too late for this attempt" if is_late else "")
        if is_late:
            self._connections.admit_late(connection, info)
            self._connections.send([connection], {"kind": "late", "reason": "comes too late"})
            if foreign is not None:
                self._guests.append((connection, foreign))
                self._invite_guests()
        else:
            self._connections.admit(connection, info)
            has_begun = membership.has_begun(self._node, self._job_before)
            job = self._node.job if has_begun else ""
            self._connections.send([connection], {"kind": "admitted", "job": job})

    def _refuse(self, connection: Connection, refusal: Verdict) -> None:
        logger.warning("refused: %s", refusal.reason)
        self._incidents.append(refusal.reason)
        connection.info, connection.is_refused = None, True
        self._connections.send([connection], refusal.as_message())

    def _invite_guests(self) -> None:
        """Make workers that may be another job's some of this job, for its next attempt, if it has room; else refuse.

        It has with --min-workers, when it has begun without some.
        """
        guests = self._guests if self._sums is not None else []
        while guests:
            connection, refusal = guests.pop()
            infos = [*self._infos(), *([connection.info] if connection.info else [])]
            if len(self._workers()) < self._node.num_workers and rendezvous.disagreement(infos) is None:
                self._connections.send([connection], {"kind": "admitted", "job": self._node.job})
            else:
                self._refuse(connection, refusal)

    def _refuse_strays(self, strays: Sequence[NodeInfo]) -> None:
        where = f"{self._node.root}:{self._node.port}"
        cure = f"give all the same flags, or, if it is of another job than the one at {where}, that another"
        for connection in self._connections.members:
            if connection.info is not None and connection.info in strays:
                differs = membership.contradiction(connection.info, self._info)
                self._refuse(connection, Verdict(USAGE, f"{differs}; {cure} {self._node.root_names}"))

    def _check_rendezvous(self, now: float) -> None:
        """End the rendezvous when all processes are here, or the time is over."""
        infos = self._infos()
        missing = rendezvous.missing(self._node, infos)
        if missing and now - self._opened < self._timeouts.start:
            return
        verdict = rendezvous.failure(infos)
        if verdict is None and not missing and self._node.memory is not None:
            self._refuse_strays(membership.strays(infos, self._info))
            missing = rendezvous.missing(self._node, self._infos())
            if missing and now - self._opened < self._timeouts.start:
                return
        if (
            verdict is None
            and missing
            and not rendezvous.is_enough(infos, self._min_workers, self._node.num_servers)
        ):
            verdict = self._incomplete(missing, infos)
        if verdict is None:
            workers = rendezvous.workers_in_order(infos)
            problem = rendezvous.disagreement(infos)
            choice = problem or resume_step.choose(workers, self._node, self._min_workers)
            if not isinstance(choice, str):
                if missing:
                    logger.warning("continuing without %s", " and ".join(missing))
                self._leave_out(choice)
                self._assign(choice.step)
                return
            verdict = Verdict(USAGE, choice)
        self._decide(verdict)

    def _incomplete(self, missing: list[str], infos: list[NodeInfo]) -> Verdict:
        address = f"{self._node.root}:{self._node.port}"
        here = ", ".join(str(info) for info in infos)
        reason = f"{' and '.join(missing)} did not come to {address} in {self._timeouts.start:g} s; here are {here}"
        # A process that has been here may come again; one that never was is more likely a mistake.
        code = RESTART_ME if self._node.is_restart or self._has_lost_one else USAGE
        return Verdict(code, "; ".join([reason, *self._incidents]))

    def _leave_out(self, choice: resume_step.ResumeChoice) -> None:
        """Let the workers that lack the chosen checkpoint wait, as those that come too late do."""
        for connection in self._connections.members:
            if connection.info in choice.left_out:
                connection.is_late = True
                lacks = f"lacks checkpoints/step-{choice.step:08d}, from which the others resume"
                logger.warning("continuing without %s, which %s; copy it to that --out", connection, lacks)
                self._connections.send([connection], {"kind": "late", "reason": f"{lacks},"})

    def _assign(self, step: int) -> None:
        self._ps_port = None if self.gateway else ports.hold(self._node.root)
        port = 0 if self._ps_port is None else self._ps_port.getsockname()[1]
        assignments = assign_ranks(self._infos(), port, step, self._node.job)
        for remark in assignments[0].remarks:
            logger.warning("%s", remark)
        self._sums = PendingSum(assignments[0].num_workers)
        for connection, assignment in zip(self._connections.members, assignments):
            connection.rank = assignment.rank
            content = dataclasses.asdict(assignment)
            self._connections.send([connection], {"kind": "assignment", "assignment": content})
        self._invite_guests()

    def _forgive_own_freeze(self, now: float) -> None:
        """Restart all limits: this process was frozen itself, perhaps with all others."""
        self._meeting = stalls.Meeting()
        for connection in self._connections.authenticated:
            connection.last_heard, connection.idle_seconds = now, 0.0

    def _check_silence(self, now: float) -> None:
        for connection in self._connections.unauthenticated:
            if now - connection.last_heard > UNAUTHENTICATED_SECONDS:
                self._connections.drop(connection)
        for connection in self._connections.authenticated:
            if now - connection.last_heard > self._timeouts.silence:
                seconds = now - connection.last_heard
                self._lose(connection, f"is silent for {seconds:.1f} s, frozen or cut off")

    def _check_stalls(self) -> None:
        if self._sums is not None:
            if all(worker.ps_lite == "started" for worker in self._workers()):
                unix_sockets.unname()
            verdict = self._meeting.verdict(self._connections.members, time.monotonic())
            verdict = verdict or stalls.verdict(self._workers(), self._sums.waiting, self._timeouts)
            if verdict is not None:
                self._decide(verdict)

    def _lose(self, connection: Connection, how: str) -> None:
        """Drop a connection; a member's loss ends the running job, and before that frees its place."""
        self._connections.drop(connection)
        if connection.info is None or connection.is_late:
            logger.debug("%s %s", connection, how)  # there may be any number of them
        elif end := self._connections.end_of_gateway():
            self._decide(Verdict(RESTART_ME, f"scheduler: {end}"))
        elif self._sums is None:
            logger.warning("%s %s in the rendezvous", connection, how)
            self._incidents.append(f"{connection} {how}")
            self._has_lost_one = True
        else:
            self._decide(Verdict(RESTART_ME, f"{connection} {how}{connection.last_progress}"))

    def _decide(self, verdict: Verdict) -> None:
        """End the job with this verdict, unless there is an earlier one."""
        self._verdict = self._verdict or verdict

    def _broadcast(self, verdict: Verdict) -> None:
        """Send the verdict to all, and wait until they have left or the time is over."""
        self._connections.close_port()  # the next attempt may open it already
        others = [
            each for each in self._connections.authenticated if each.info and each.info.role != "scheduler"
        ]
        self._connections.send(others, verdict.as_message())
        deadline = time.monotonic() + BROADCAST_SECONDS
        while any(map(self._connections.is_open, others)) and time.monotonic() < deadline:
            for connection, _, lost in self._connections.receive(0.05):
                if lost:
                    self._connections.drop(connection)

    def _infos(self) -> list[NodeInfo]:
        return [each.info for each in self._connections.members if each.info is not None]

    def _workers(self) -> list[Connection]:
        return [each for each in self._connections.members if each.rank >= 0]
