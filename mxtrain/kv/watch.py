"""The scheduler's end of all control lines: the port, the roll call, who is alive, sums, and the verdict.

One thread of the scheduler's process owns every socket here and never waits for any one of them. It ends that
process too. Who may come and who gets which number is `rollcall`'s judgement.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import logging
import selectors
import socket
import threading
import time
from typing import Any

from mxtrain.errors import RESTART_ME, USAGE, UsageError
from mxtrain.kv import leave, rollcall
from mxtrain.kv.cluster import Cluster
from mxtrain.kv.leave import Verdict
from mxtrain.kv.line import MAX_RAW_BYTES, Closed, Line, Malformed
from mxtrain.kv.member import Times
from mxtrain.kv.rollcall import Card
from mxtrain.kv.sums import Sums

logger = logging.getLogger(__name__)

HELLO_SECONDS = 5.0  # a stranger that has not said who it is by then is shown out
MAX_STRANGERS = 64
SPREAD_SECONDS = 0.4
DONE = Verdict(0, "")


@dataclasses.dataclass(eq=False)
class Guest:
    """A connection; a member of the job as soon as it has shown its card."""

    line: Line
    heard: float
    card: Card | None = None
    number: int = -1
    phase: str = "start"
    step: int = -1
    idle_seconds: float = 0.0
    finished: bool = False
    refused: bool = False

    @property
    def where(self) -> str:
        return f"'{self.phase}'" + (f" of step {self.step}" if self.step >= 0 else "")


def oversee(cluster: Cluster, times: Times, min_workers: int = 0) -> None:
    """Open the port, and from a thread of this process take the roll and watch; that thread ends the process."""
    watch = Watch(cluster, times, min_workers, _listen(cluster))
    threading.Thread(target=watch.run, name="watch", daemon=True).start()


class Watch:
    """The state of one job in one life."""

    def __init__(self, cluster: Cluster, times: Times, min_workers: int, listener: socket.socket):
        self._cluster, self._times, self._min_workers = cluster, times, min_workers
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ, None)
        self._opened = time.monotonic()
        self._guests: list[Guest] = []
        self._refused: list[str] = []
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
        leave.leave(verdict, self._cluster.name)

    @property
    def _members(self) -> list[Guest]:
        return [guest for guest in self._guests if guest.card is not None]

    @property
    def _workers(self) -> list[Guest]:
        return [guest for guest in self._members if guest.number >= 0]

    def _serve(self) -> None:
        """Until there is a verdict."""
        beaten = 0.0
        while self._verdict is None:
            # Taken before the network is looked at: a scheduler that was frozen first hears what it missed.
            now = time.monotonic()
            for key, events in self._selector.select(max(0.0, beaten + self._times.beat - now)):
                if key.data is None:
                    self._welcome()
                elif key.data in self._guests:
                    self._attend(key.data, events)
            if now - beaten >= self._times.beat:
                beaten = now
                self._beat()
                self._look(now)
            if self._sums is None and self._verdict is None:
                self._take_roll(now)

    def _welcome(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # it went away again, or this process has no handle left
            return
        strangers = [guest for guest in self._guests if guest.card is None]
        if len(strangers) >= MAX_STRANGERS:
            self._drop(strangers[0])
        guest = Guest(Line(connection), time.monotonic())
        self._guests.append(guest)
        self._selector.register(guest.line, selectors.EVENT_READ, guest)

    def _attend(self, guest: Guest, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                guest.line.flush()
                self._expect(guest)
            if events & selectors.EVENT_READ:
                messages = guest.line.receive()
                guest.heard = time.monotonic()
                for message, raw in messages:
                    self._hear(guest, message, raw)
        except Closed:
            self._lose(guest, "died")
        except (Malformed, ValueError, KeyError, TypeError) as problem:
            self._lose(guest, f"sent what nobody understands ({problem})")

    def _hear(self, guest: Guest, message: dict[str, Any], raw: bytes) -> None:
        kind = message["kind"]
        if guest.refused:
            return
        if guest.card is None:
            self._read_card(guest, message)
        elif kind == "beat":
            guest.phase, guest.step = str(message["phase"]), int(message["step"])
            guest.idle_seconds = float(message["idle"])
        elif kind == "fail":
            self._end(Verdict(int(message["exit_code"]) or 1, f"{guest.card.node}: {message['reason']}"))
        elif self._sums is None or guest.number < 0:
            raise Malformed(f"a {kind} at the wrong time")
        elif kind == "sum":
            total = self._sums.add(guest.number, int(message["number"]), raw)
            if total is not None:
                self._tell(self._workers, {"kind": "total"}, total)
        elif kind == "finish":
            guest.finished = True
            if all(worker.finished for worker in self._workers):
                self._end(DONE)
        else:
            raise Malformed(f"a {kind}")

    def _read_card(self, guest: Guest, message: dict[str, Any]) -> None:
        if message["kind"] != "hello":
            raise Malformed("no hello")
        card = rollcall.card_of(message["card"])
        refusal = rollcall.refusal(message, card, self._cluster, self._cards())
        if refusal is None and self._sums is not None:
            refusal = Verdict(
                RESTART_ME, f"{card} comes too late, the job runs without it until its next life"
            )
        if refusal is None:
            guest.card, guest.line.max_raw_bytes = card, MAX_RAW_BYTES
            logger.info("here: %s", card)
            self._tell([guest], {"kind": "beat"})
            return
        logger.warning("refused: %s", refusal.reason)
        self._refused.append(refusal.reason)
        guest.refused = True
        self._tell([guest], refusal.as_message())

    def _cards(self) -> list[Card]:
        return [guest.card for guest in self._guests if guest.card is not None]

    def _take_roll(self, now: float) -> None:
        """End the roll call when all are here, or the time is over."""
        cards = self._cards()
        missing = rollcall.missing(self._cluster, cards)
        late = now - self._opened > self._times.start
        if missing and not late:
            return
        failure = rollcall.failure(cards)
        if failure is not None:
            self._end(failure)
            return
        if missing and not rollcall.enough(cards, self._min_workers):
            reason = (
                f"{' and '.join(missing)} did not come in {self._times.start:g} s; here are "
                + ", ".join(str(card) for card in cards)
            )
            code = RESTART_ME if self._cluster.generation else USAGE
            self._end(Verdict(code, reason + "".join(f"; refused: {each}" for each in self._refused[-3:])))
            return
        if missing:
            logger.warning("going on without %s", " and ".join(missing))
        problem = rollcall.disagreement(cards)
        step = rollcall.resume_step(rollcall.in_order(cards))
        if problem or isinstance(step, str):
            self._end(Verdict(USAGE, str(problem or step)))
            return
        self._go(rollcall.divide(cards, self._engine_port(), step))

    def _go(self, told: list[rollcall.Go]) -> None:
        self._sums = Sums(told[0].num_workers)
        for guest, go in zip(self._members, told):
            guest.number, guest.idle_seconds = go.number, 0.0
            self._tell([guest], {"kind": "go", "go": dataclasses.asdict(go)})

    def _engine_port(self) -> int:
        """A free port for ps-lite, kept from others until it listens there: two sockets may bind one port as
        long as neither, or only the later one, listens and both allow it, as ZeroMQ's do."""
        self._held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._held.bind((self._cluster.root, 0))
        return int(self._held.getsockname()[1])

    def _look(self, now: float) -> None:
        """Who is silent, and who makes no progress."""
        for guest in list(self._guests):
            silent = now - guest.heard
            if guest.card is None and silent > HELLO_SECONDS:
                self._drop(guest)
            elif guest.card is not None and silent > self._times.silence:
                self._lose(guest, f"is silent for {silent:.1f} s, frozen or cut off")
        if self._sums is not None and self._verdict is None:
            self._look_for_stall(self._sums, now)

    def _look_for_stall(self, sums: Sums, now: float) -> None:
        absent = [worker for worker in self._workers if worker.number not in sums.numbers]
        waiting = [worker for worker in self._workers if worker.number in sums.numbers]
        gone = [worker for worker in absent if worker.finished]
        if waiting and gone:
            self._end(Verdict(RESTART_ME, f"{_names(gone)} finished while {_names(waiting)} waits for a sum"))
            return
        busy = [worker for worker in absent if not worker.finished]
        stuck = [worker for worker in busy if worker.idle_seconds > self._times.stall]
        if stuck:
            worst = max(stuck, key=lambda worker: worker.idle_seconds)
            self._end_stalled([worst], f"made no progress for {worst.idle_seconds:.1f} s, in {worst.where}")
        elif waiting and now - sums.opened > self._times.stall:
            places = ", ".join(worker.where for worker in busy)
            self._end_stalled(busy, f"did not come to a sum for {now - sums.opened:.1f} s, in {places}")

    def _end_stalled(self, stuck: list[Guest], what: str) -> None:
        names = tuple(guest.card.node for guest in stuck if guest.card is not None)
        self._end(Verdict(RESTART_ME, f"{_names(stuck)} {what}", names))

    def _beat(self) -> None:
        self._tell(self._members, {"kind": "beat"})

    def _tell(self, guests: list[Guest], message: dict[str, Any], raw: bytes = b"") -> None:
        for guest in guests:
            try:
                guest.line.send(message, raw)
                self._expect(guest)
            except Closed:
                self._lose(guest, "died")

    def _expect(self, guest: Guest) -> None:
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if guest.line.unsent else 0)
        if self._selector.get_key(guest.line).events != events:
            self._selector.modify(guest.line, events, guest)

    def _lose(self, guest: Guest, how: str) -> None:
        """A member's end is everybody's end, once the job runs; before that its place is free again."""
        if guest not in self._guests:
            return
        self._drop(guest)
        if guest.card is None:
            logger.info("a stranger %s", how)
        elif self._sums is None:
            logger.warning("%s %s in the roll call", guest.card, how)
        else:
            self._end(Verdict(RESTART_ME, f"{guest.card} {how}, in {guest.where}"))

    def _drop(self, guest: Guest) -> None:
        self._guests.remove(guest)
        self._selector.unregister(guest.line)
        guest.line.close()

    def _end(self, verdict: Verdict) -> None:
        """The first verdict stands."""
        self._verdict = self._verdict or verdict

    def _spread(self, verdict: Verdict) -> None:
        """Tell everybody, and stay until all have left or the time is over."""
        others = [guest for guest in self._members if guest.card and guest.card.role != "scheduler"]
        self._tell(others, verdict.as_message())
        deadline = time.monotonic() + SPREAD_SECONDS
        while any(guest in self._guests for guest in others) and time.monotonic() < deadline:
            for key, _ in self._selector.select(0.05):
                if key.data in others and key.data in self._guests:
                    try:
                        key.data.line.flush()
                        key.data.line.receive()
                    except (Closed, Malformed):
                        self._drop(key.data)


def _listen(cluster: Cluster) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((cluster.root, cluster.port))
        listener.listen(512)
    except OSError as error:
        listener.close()
        where = f"DMLC_PS_ROOT_URI:DMLC_PS_ROOT_PORT {cluster.root}:{cluster.port}"
        cure = {
            errno.EADDRINUSE: "another program listens there; give another port",
            errno.EADDRNOTAVAIL: "no address of this host; start the scheduler on the host that has it",
            errno.EACCES: "ports below 1024 are root's; give a higher one",
        }
        raise UsageError(f"{where}: {cure.get(error.errno or 0, error.strerror)}") from None
    listener.setblocking(False)
    return listener


def _names(guests: list[Guest]) -> str:
    return " and ".join(str(guest.card) for guest in guests)
