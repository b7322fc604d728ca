"""Hosts of a small network on one machine: network namespaces at the ports of a switch, another one. Needs root."""

from __future__ import annotations

import contextlib
import os
from typing import Iterator

from tests.support.hosts.two_hosts import NamespaceHost, add, do, need, remove


@contextlib.contextmanager
def lan(count: int) -> Iterator[list[NamespaceHost]]:
    """A block with so many hosts; processes that still run on them at its end are killed."""
    need("ip")
    number = os.getpid() % 10000
    switch = NamespaceHost(f"mxs{number}", "", "switch")
    hosts = [
        NamespaceHost(f"mx{place}n{number}", f"10.213.9.{place + 1}", f"mx{place}n{number}c")
        for place in range(count)
    ]
    with contextlib.ExitStack() as stack:
        for each in (switch, *hosts):
            add(each)
            stack.callback(remove, each)
        do(*switch.inside("ip", "link", "add", switch.cable, "type", "bridge"))
        do(*switch.inside("ip", "link", "set", switch.cable, "up"))
        for host in hosts:
            socket = f"{host.cable[:-1]}s"
            do(
                "ip",
                "link",
                "add",
                host.cable,
                "netns",
                host.namespace,
                "type",
                "veth",
                "peer",
                "name",
                socket,
                *(
                    "netns",
                    switch.namespace,
                ),
            )
            do(*switch.inside("ip", "link", "set", socket, "master", switch.cable))
            do(*switch.inside("ip", "link", "set", socket, "up"))
            do(*host.inside("ip", "address", "add", f"{host.address}/24", "dev", host.cable))
            for name in (host.cable, "lo"):
                do(*host.inside("ip", "link", "set", name, "up"))
        yield hosts


def slow_down(host: NamespaceHost, megabits: int) -> None:
    """Let no more than so many megabits a second leave the host."""
    limit = ("tbf", "rate", f"{megabits}mbit", "burst", "32kbit", "latency", "400ms")
    do(*host.inside("tc", "qdisc", "add", "dev", host.cable, "root", *limit))


def drop_arriving(host: NamespaceHost, first: int, last: int) -> None:
    """Have the host lose what arrives for these TCP ports, as a firewall does that says nothing.

    By a rule for routes, which needs no tool of firewalls: the host's own addresses are looked up after it.
    """
    rule = ("ip", "rule", "add")
    do(*host.inside(*rule, "pref", "200", "lookup", "local"))
    do(*host.inside("ip", "rule", "delete", "pref", "0"))
    where = ("pref", "100", "iif", host.cable, "ipproto", "tcp", "dport", f"{first}-{last}")
    do(*host.inside(*rule, *where, "blackhole"))


def drop_nothing(host: NamespaceHost) -> None:
    """Let all arrive again."""
    do(*host.inside("ip", "rule", "delete", "pref", "100"))
