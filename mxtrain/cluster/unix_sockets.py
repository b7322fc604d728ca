"""The unix sockets over which ps-lite's processes meet where all of them are on one host: half again as fast as TCP.

ps-lite calls them /tmp/NUMBER and takes over whatever is there, another job's too. So a number is only used while the
TCP port of that number is held, by a socket that does nothing else. Whether it is held also tells what the dead
have left. Nothing here knows mxnet.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from pathlib import Path
from typing import Iterator, Mapping

FOLDER = Path("/tmp")
HOST = "127.0.0.1"
_held: list[socket.socket] = []


def place(environ: Mapping[str, str]) -> str:
    """What is equal for two processes that can meet there; nothing where DMLC_LOCAL=0 asks for TCP."""
    if environ.get("DMLC_LOCAL") == "0":
        return ""
    folder = FOLDER.stat()
    return f"{os.getuid()} {folder.st_dev} {folder.st_ino}"


def reserve() -> int:
    """A number for this process, as long as it lives."""
    holder = socket.socket()
    holder.bind((HOST, 0))
    _held.append(holder)
    return int(holder.getsockname()[1])


@contextlib.contextmanager
def private() -> Iterator[None]:
    """A block in which ps-lite makes its socket: for this user alone, whatever the umask is outside."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def sweep() -> None:
    """Delete this user's sockets that nobody holds and nobody answers at: a killed process cannot."""
    for path in FOLDER.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found = path.lstat()
            ours = stat.S_ISSOCK(found.st_mode) and found.st_uid == os.getuid() and path.name.isdecimal()
            if ours and int(path.name) < 1 << 16 and not _is_held(int(path.name)) and not _answers(path):
                path.unlink()


def _is_held(number: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, number))
        except OSError:
            return True
    return False


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)  # one whose owner takes nobody in any more is not waited for
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return False
    return True
