"""The scheduler's end of all control lines: the roll call, who is alive, sums, and the verdict that ends the job.

One thread of the scheduler's process does it all, and ends that process too. Connections are `guests`' business;
who may come and who gets which number is `rollcall`'s judgement.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import socket
import threading
import time
from collections import deque
from typing import Any

from mxtrain.cluster import rendezvous, verdicts
from mxtrain.cluster.agent import Timeouts
from mxtrain.cluster.channel import Malformed, Message
from mxtrain.cluster.connections import STRANGER_SECONDS, Connection, Connections, hold_port
from mxtrain.cluster.environment import NodeSpec
from mxtrain.cluster.rendezvous import NodeInfo
from mxtrain.cluster.sums import Sums
from mxtrain.cluster.verdicts import Verdict
from mxtrain.core.errors import RESTART_ME, USAGE

logger = logging.getLogger(__name__)

SPREAD_SECONDS = 0.4
DONE = Verdict(0, "")
# What a message of a wrong shape comes to.
WRONG_SHAPE = (Malformed, ArithmeticError, LookupError, TypeError, ValueError)


def oversee(cluster: NodeSpec, times: Timeouts, min_workers: int = 0) -> None:
    """Open the port, and from a thread of this process take the roll and watch; that thread ends the process."""
    watch = Coordinator(cluster, times, min_workers)
    threading.Thread(target=watch.run, name="watch", daemon=True).start()


class Coordinator:
    """The state of one job in one life."""

    def __init__(self, cluster: NodeSpec, times: Timeouts, min_workers: int):
        self._cluster, self._times, self._min_workers = cluster, times, min_workers
        self._guests = Connections(cluster)
        self._opened = time.monotonic()
        self._incidents: deque[str] = deque(maxlen=3)  # of the roll call: who was refused or lost
        self._lost_one = False
        self._engine_port: socket.socket | None = None
        self._sums: Sums | None = None  # there from the end of the roll call on
        self._verdict: Verdict | None = None

    def run(self) -> None:
        try:
            self._serve()
        except Exception as error:
            logger.exception("the watch broke")
            self._verdict = Verdict(RESTART_ME, f"scheduler: the watch broke ({error!r})")
        verdict = self._verdict or DONE
        with contextlib.suppress(Exception):
            self._spread(verdict)
        verdicts.leave(verdict, self._cluster.name)

    def _serve(self) -> None:
        """Until there is a verdict."""
        beaten, looked = 0.0, time.monotonic()
        while self._verdict is None:
            # Taken before the network is looked at: a scheduler that was frozen first hears what it missed.
            now = time.monotonic()
            if now - looked > self._times.silence / 2:
                self._excuse(now)
            looked = now
            for guest, messages, lost in self._guests.hear(max(0.0, beaten + self._times.beat - now)):
                self._attend(guest, messages, lost)
            if now - beaten >= self._times.beat:
                beaten = now
                self._guests.tell(self._guests.known, {"kind": "beat"})
                self._look_for_silence(now)
                self._look_for_stall()
            if self._sums is None:
                self._take_roll(now)

    def _attend(self, guest: Connection, messages: list[Message], lost: str) -> None:
        try:
            for message, raw in messages:
                self._hear(guest, message, raw)
        except WRONG_SHAPE as problem:
            lost = f"sent what nobody understands ({problem})"
        if lost:
            self._lose(guest, lost)

    def _hear(self, guest: Connection, message: dict[str, Any], raw: bytes) -> None:
        kind = message["kind"]
        if guest.refused or guest.late:
            return
        if guest.card is None:
            self._read_card(guest, message)
        elif kind == "beat":
            guest.phase, guest.step = str(message["phase"]), int(message["step"])
            guest.idle_seconds = float(message["idle"])
        elif kind == "fail":
            self._end(Verdict(int(message["exit_code"]) or 1, f"{guest.card.node}: {message['reason']}"))
        elif self._sums is None or guest.rank < 0:
            raise Malformed(f"a {kind} at the wrong time")
        elif kind == "sum":
            total = self._sums.add(guest.rank, int(message["number"]), raw)
            if total is not None:
                self._guests.tell(self._workers(), {"kind": "total"}, total)
        elif kind == "finish":
            guest.finished = True
            if all(worker.finished for worker in self._workers()):
                self._end(Verdict(int(message["exit_code"]), str(message["reason"])))
        else:
            raise Malformed(f"a {kind}")

    def _read_card(self, guest: Connection, message: dict[str, Any]) -> None:
        if message["kind"] != "hello":
            raise Malformed("no hello")
        card = rendezvous.card_of(message["card"])
        refusal = rendezvous.refusal(message, card, self._cluster, self._cards())
        is_late = self._sums is not None
        if refusal is None and is_late:
            refusal = rendezvous.failure([card])  # its own, for which it need not wait
        if refusal is None:
            logger.info("here: %s%s", card, ", too late for this life" if is_late else "")
            (self._guests.keep_waiting if is_late else self._guests.accept)(guest, card)
            self._guests.tell([guest], {"kind": "late" if is_late else "beat"})
            return
        logger.warning("refused: %s", refusal.reason)
        self._incidents.append(refusal.reason)
        guest.refused = True
        self._guests.tell([guest], refusal.as_message())

    def _take_roll(self, now: float) -> None:
        """End the roll call when all are here, or the time is over."""
        cards = self._cards()
        missing = rendezvous.missing(self._cluster, cards)
        if missing and now - self._opened < self._times.start:
            return
        verdict = rendezvous.failure(cards)
        if verdict is None and missing and not rendezvous.enough(cards, self._min_workers):
            where = f"{self._cluster.root}:{self._cluster.port}"
            here = ", ".join(str(card) for card in cards)
            reason = (
                f"{' and '.join(missing)} did not come to {where} in {self._times.start:g} s; here are {here}"
            )
            # Who has been here once may come again; one that never was is more likely a mistake.
            code = RESTART_ME if self._cluster.is_restart or self._lost_one else USAGE
            verdict = Verdict(code, "; ".join([reason, *self._incidents]))
        if verdict is None:
            problem = rendezvous.disagreement(cards)
            step = rendezvous.resume_step(rendezvous.in_order(cards), self._cluster)
            if problem is None and isinstance(step, int):
                if missing:
                    logger.warning("going on without %s", " and ".join(missing))
                self._go(step)
                return
            verdict = Verdict(USAGE, str(problem or step))
        self._end(verdict)

    def _go(self, step: int) -> None:
        self._engine_port = hold_port(self._cluster.root)
        port = self._engine_port.getsockname()[1]
        told = rendezvous.divide(self._cards(), port, step, self._cluster.job)
        self._sums = Sums(told[0].num_workers)
        for guest, go in zip(self._guests.members, told):
            guest.rank = go.rank
            self._guests.tell([guest], {"kind": "go", "go": dataclasses.asdict(go)})

    def _excuse(self, now: float) -> None:
        """This process was frozen itself, perhaps with all others: nobody is to blame for that time."""
        for member in self._guests.known:
            member.heard, member.idle_seconds = now, 0.0

    def _look_for_silence(self, now: float) -> None:
        for stranger in self._guests.strangers:
            if now - stranger.heard > STRANGER_SECONDS:
                self._guests.drop(stranger)
        for member in self._guests.known:
            if now - member.heard > self._times.silence:
                self._lose(member, f"is silent for {now - member.heard:.1f} s, frozen or cut off")

    def _look_for_stall(self) -> None:
        if self._sums is None:
            return
        waiting = [worker for worker in self._workers() if worker.rank in self._sums.numbers]
        absent = [worker for worker in self._workers() if worker not in waiting]
        busy = [worker for worker in absent if not worker.finished]
        if waiting and len(busy) < len(absent):
            gone = [worker for worker in absent if worker.finished]
            self._end(Verdict(RESTART_ME, f"{_names(gone)} finished while {_names(waiting)} waits for a sum"))
        elif busy:
            self._judge_idleness(max(busy, key=lambda worker: worker.idle_seconds - self._patience(worker)))

    def _judge_idleness(self, slowest: Connection) -> None:
        """One that makes progress is waited for, however slow it is: what it does comes to an end."""
        if slowest.idle_seconds > self._patience(slowest) and slowest.card is not None:
            reason = f"{slowest} made no progress for {slowest.idle_seconds:.1f} s{slowest.where}"
            self._end(Verdict(RESTART_ME, reason, (slowest.card.node,)))

    def _patience(self, worker: Connection) -> float:
        """Before its first step it imports, builds and meets the others: how long that takes is up to the machine."""
        return self._times.stall if worker.step >= 0 else max(self._times.stall, self._times.start)

    def _lose(self, guest: Connection, how: str) -> None:
        """A member's end is everybody's end, once the job runs; before that its place is free again."""
        self._guests.drop(guest)
        if guest.card is None or guest.late:
            logger.debug("%s %s", guest, how)  # as many as like to come
        elif self._sums is None:
            logger.warning("%s %s in the roll call", guest, how)
            self._incidents.append(f"{guest} {how}")
            self._lost_one = True
        else:
            self._end(Verdict(RESTART_ME, f"{guest} {how}{guest.where}"))

    def _end(self, verdict: Verdict) -> None:
        """The first verdict stands."""
        self._verdict = self._verdict or verdict

    def _spread(self, verdict: Verdict) -> None:
        """Tell everybody, and stay until all have left or the time is over."""
        self._guests.close_port()  # who comes now comes for the next life, which may open it already
        others = [guest for guest in self._guests.known if guest.card and guest.card.role != "scheduler"]
        self._guests.tell(others, verdict.as_message())
        deadline = time.monotonic() + SPREAD_SECONDS
        while any(map(self._guests.here, others)) and time.monotonic() < deadline:
            for guest, _, lost in self._guests.hear(0.05):
                if lost:
                    self._guests.drop(guest)

    def _cards(self) -> list[NodeInfo]:
        return [guest.card for guest in self._guests.members if guest.card is not None]

    def _workers(self) -> list[Connection]:
        return [guest for guest in self._guests.members if guest.rank >= 0]


def _names(guests: list[Connection]) -> str:
    return " and ".join(str(guest) for guest in guests)
