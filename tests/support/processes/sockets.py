"""Sockets that a process listens on, as Linux lists them."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import struct
from pathlib import Path
from typing import NamedTuple

LISTENING = "0A"


class Listener(NamedTuple):
    address: str
    port: int


def listeners(pid: int) -> list[Listener]:
    """The TCP ports of a process, IPv4 and IPv6, as `ss -ltnp` shows them."""
    inodes, found = _inodes(pid), []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            local, state, inode = (line.split()[column] for column in (1, 3, 9))
            if state == LISTENING and inode in inodes:
                address, port = local.split(":")
                words = struct.pack(
                    f"={len(address) // 8}I",
                    *(int(address[at : at + 8], 16) for at in range(0, len(address), 8)),
                )
                found.append(Listener(str(ipaddress.ip_address(words)), int(port, 16)))
    return found


def unix_paths(pid: int) -> list[Path]:
    """The files at which a process listens for others on its host, but for those that got other names later."""
    inodes = _inodes(pid)
    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    paths = {Path(line[7]) for line in lines if line[6] in inodes and line[7:] and line[7][0] == "/"}
    return sorted(path for path in paths if not path.name.startswith(".mxtrain-"))


def _inodes(pid: int) -> set[str]:
    """The inodes of a process's sockets."""
    found = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            target = os.readlink(link)
            if target.startswith("socket:["):
                found.add(target[len("socket:[") : -1])
    return found
