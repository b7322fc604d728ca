"""The processes of a cluster that `fit` has started on this machine."""

from __future__ import annotations

from pathlib import Path


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def roles(pid: int) -> dict[str, int]:
    """The process of each role, by the name that its supervisor gave it."""
    named = {}
    for child in children(pid):
        environment = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        names = [line.split(b"=", 1)[1].decode() for line in environment if line.startswith(b"MXTRAIN_NODE=")]
        named.update(dict.fromkeys(names, child))
    return named


def command_line(pid: int) -> bytes:
    """Its words, each ended by a zero; nothing where it has gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
