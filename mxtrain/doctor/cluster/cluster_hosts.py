"""Examination of a cluster's hosts: facts, clocks, disks, and the network between every two of them.

Owns the order of questions. All hosts are asked at once, but only one pair that a host belongs to measures at a time. A
host that fails is named and left out from there on; no question waits longer than its limit. What the answers mean is
`cluster_advice.py`'s.
"""

from __future__ import annotations

import secrets
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Iterator, Sequence

from mxtrain.doctor.cluster.remote_host import HostFailed, RemoteHost
from mxtrain.launch.hosts import PORTS_FOR_ONE_JOB, Host

FACTS_SECONDS, CLOCK_SECONDS, DISK_SECONDS, NET_SECONDS = 45.0, 10.0, 60.0, 30.0
ROUND_TRIPS = 8
RATE_SECONDS = 0.5

Command = Callable[[Host], Sequence[str]]
Say = Callable[[str], None]


class Examined:
    """A host with what is known of it: `known["error"]` says why nothing more is."""

    def __init__(self, host: Host, number: int, command: Command):
        self.number, self.known = number, {"host": host.name}
        self._remote: RemoteHost | None = None
        try:
            self._remote = RemoteHost(command(host))
        except HostFailed as failed:
            self.known["error"] = str(failed)

    known: dict[str, Any]

    @property
    def answers(self) -> bool:
        return "error" not in self.known

    def ask(self, what: str, seconds: float, **request: Any) -> dict[str, Any] | None:
        """Return the answer to a question; None where the host has failed, now or before."""
        if not self.answers or self._remote is None:
            return None
        try:
            return self._remote.ask(what, seconds, **request)
        except HostFailed as failed:
            self.known["error"] = str(failed)
            return None

    def close(self) -> None:
        if self._remote is not None:
            self._remote.close()


def examine(
    hosts: Sequence[Host], command: Command, address_of: Callable[[Host], str], port: int, out: str, say: Say
) -> dict[str, Any]:
    """Return what is known of each of `hosts`, in their order, and of each pair of them.

    `command` starts a host's probe, `address_of` is how the others reach it (empty: as ssh does). `port` is the first
    of the rendezvous, `out` a run's folder.
    """
    # A mark is a file's name, which others may read; the token opens ports.
    token, mark = secrets.token_hex(32), secrets.token_hex(8)
    with ThreadPoolExecutor(len(hosts)) as pool:
        examined = list(pool.map(lambda pair: Examined(pair[1], pair[0], command), enumerate(hosts)))
        try:
            for what, each in (("machines", _ask_facts), ("clocks", _ask_clock)):
                say(what)
                list(pool.map(each, examined))
            say(f"disks of {out}")
            list(pool.map(lambda each: _ask_disk(each, out, mark), examined))
            list(pool.map(lambda each: _ask_marks(each, out, mark), examined))
            list(pool.map(lambda each: each.ask("unmark", CLOCK_SECONDS), examined))
            say("the network between them")
            addresses = [address_of(host) for host in hosts]
            list(pool.map(lambda each: _listen(each, addresses[each.number], port, token), examined))
            pairs = _examine_pairs(examined, pool, token)
        finally:
            list(pool.map(lambda each: each.close(), examined))
    return {"out": out, "port": port, "hosts": [each.known for each in examined], "pairs": pairs}


def _ask_facts(host: Examined) -> None:
    found = host.ask("facts", FACTS_SECONDS)
    if found is not None:
        host.known.update(found)


def _ask_clock(host: Examined) -> None:
    trips = []
    for _ in range(ROUND_TRIPS):
        sent = time.time()
        answer = host.ask("clock", CLOCK_SECONDS)
        if answer is None:
            return
        trips.append((sent, answer["time"], time.time()))
    host.known["clock_offset"], host.known["clock_error"] = offset(trips)


def offset(trips: Sequence[tuple[float, float, float]]) -> tuple[float, float]:
    """Return by how many seconds a clock is ahead of this one's, and how far off that may be.

    Of each round trip: when it was asked, what the other clock said, when the answer came. The shortest tells most: the
    other clock was read somewhere between.
    """
    sent, remote, received = min(trips, key=lambda trip: trip[2] - trip[0])
    return remote - (sent + received) / 2, (received - sent) / 2


def _ask_disk(host: Examined, out: str, mark: str) -> None:
    found = host.ask("disk", DISK_SECONDS, folder=out, mark=mark, number=host.number)
    if found is not None:
        host.known["disk"] = found


def _ask_marks(host: Examined, out: str, mark: str) -> None:
    """Note which hosts have the same folder; a host by itself where the folder is not there yet."""
    found = host.ask("marks", CLOCK_SECONDS, folder=out, mark=mark)
    if found is not None:
        host.known["disk"]["shared_with"] = [number for number in found["marks"] if number != host.number]


def _listen(host: Examined, address: str, port: int, token: str) -> None:
    if not host.answers:
        return
    host.known["address"] = address or host.known.get("address", "")
    ports = list(range(port, port + PORTS_FOR_ONE_JOB))
    found = host.ask("listen", NET_SECONDS, address=host.known["address"], ports=ports, token=token)
    if found is not None:
        host.known.update(ports=found["ports"], port_errors=found["errors"])


def _examine_pairs(
    examined: Sequence[Examined], pool: ThreadPoolExecutor, token: str
) -> list[dict[str, Any]]:
    """Return what is known of the way between any two hosts, in each direction."""
    found = []
    for round_of_pairs in rounds(len(examined)):
        for direction in (1, -1):
            pairs = [pair[::direction] for pair in round_of_pairs]
            answers = pool.map(lambda pair: _examine_pair(examined[pair[0]], examined[pair[1]], token), pairs)
            found += [answer for answer in answers if answer]
    return sorted(found, key=lambda pair: (pair["from"], pair["to"]))


def _examine_pair(source: Examined, target: Examined, token: str) -> dict[str, Any] | None:
    if not target.answers or not target.known.get("ports"):
        return None
    where = {"address": target.known["address"], "ports": target.known["ports"]}
    answer = source.ask("connect", NET_SECONDS, token=token, rate_seconds=RATE_SECONDS, **where)
    return None if answer is None else {"from": source.number, "to": target.number, **answer}


def rounds(count: int) -> Iterator[list[tuple[int, int]]]:
    """Yield rounds of pairs in which each of `count` hosts meets each other once, and is in one pair at a time."""
    places: list[int | None] = [*range(count), *([None] if count % 2 else [])]
    for _ in range(len(places) - 1):
        half = len(places) // 2
        yield [
            (one, other)
            for one, other in zip(places[:half], reversed(places[half:]))
            if one is not None and other is not None
        ]
        places[1:] = [places[-1], *places[1:-1]]


def numeric_address(host: Host) -> str:
    """Return the address that the host's name has here, where other hosts may use it too; else an empty text."""
    try:
        found = str(socket.getaddrinfo(host.name, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])
    except (OSError, UnicodeError):
        return ""
    return "" if found.startswith("127.") else found
