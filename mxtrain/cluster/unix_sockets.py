"""Unix sockets that ps-lite's processes use if all of them are on one host.

ps-lite names them /tmp/NUMBER and takes over whatever has that name, another job's socket too. So a process uses a
number only while it holds the TCP port of the same number with a socket that does nothing else; a port that nobody
holds marks a socket as left by a dead process. Once all are connected the name goes. A job over hosts has numbers that
are no ports and the same on all of them (`gateway/routes.py`). Owns these files and numbers; knows nothing of mxnet.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import stat
from pathlib import Path
from typing import Iterator, Mapping

logger = logging.getLogger(__name__)

FOLDER = Path("/tmp")
CONNECTIONS = Path("/proc/net/unix")
HOST = "127.0.0.1"
CONNECTED = "03"  # as Linux lists it
_held: list[socket.socket] = []
_named: dict[Path, int] = {}  # this process's socket, until its name is deleted, and how many connect to it


def namespace(environ: Mapping[str, str]) -> str:
    """Return a text that is equal for two processes that share FOLDER; empty where TCP has to do.

    That is where DMLC_LOCAL=0 asks for it, and where no socket can be made in FOLDER.
    """
    if environ.get("DMLC_LOCAL") == "0":
        return ""
    try:
        _try_out()
        folder = FOLDER.stat()
    except OSError as error:
        logger.warning(
            "%s: no socket can be made there (%s), so the processes of this host speak TCP, which is slower; "
            "put that right, or set DMLC_LOCAL=0 to choose TCP",
            *(FOLDER, error.strerror or error),
        )
        return ""
    return f"{os.getuid()} {folder.st_dev} {folder.st_ino}"


def _try_out() -> None:
    """Make a socket as ps-lite does, and delete it; raises OSError where there is no way or no room to."""
    with socket.socket(socket.AF_UNIX) as tried:
        path = FOLDER / f".mxtrain-{secrets.token_hex(8)}"
        tried.bind(str(path))
        path.unlink()


def reserve() -> int:
    """Return a number that is this process's as long as it lives."""
    holder = socket.socket()
    holder.bind((HOST, 0))
    _held.append(holder)
    return int(holder.getsockname()[1])


def expect(number: int, num_peers: int) -> None:
    """Have `unname` delete the name of this process's socket once so many are connected to it."""
    _named[FOLDER / str(number)] = num_peers


def unname() -> None:
    """Delete the socket's name if all are connected to it: nobody comes later, and a killed process leaves none."""
    for path, num_peers in list(_named.items()):
        lines = [line.split() for line in CONNECTIONS.read_text().splitlines() if line.endswith(f" {path}")]
        if sum(line[5] == CONNECTED for line in lines) >= num_peers:
            path.unlink(missing_ok=True)
            del _named[path]


@contextlib.contextmanager
def private() -> Iterator[None]:
    """A block in which ps-lite makes its socket: for this user alone, whatever the umask is outside.

    The umask is the process's, and a server's block lasts as long as the server. So nobody else sets it, and nobody
    waits for who has.
    """
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def listen(number: int, backlog: int) -> socket.socket:
    """Return a socket that listens at this number, for this user alone, in the place of what had the name.

    It listens once it is private, as before that nobody can connect, and gets the name once it listens: before that a
    sweep would take it for a dead process's.
    """
    aside = FOLDER / f".mxtrain-{secrets.token_hex(8)}"
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(aside))
        aside.chmod(0o700)
        listener.listen(backlog)
        aside.replace(FOLDER / str(number))
    except BaseException:
        listener.close()
        aside.unlink(missing_ok=True)
        raise
    return listener


def sweep() -> None:
    """Delete this user's sockets that nobody holds and nobody answers at, since a killed process cannot."""
    for path in FOLDER.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            status = path.lstat()
            ours = stat.S_ISSOCK(status.st_mode) and status.st_uid == os.getuid() and path.name.isdecimal()
            number = int(path.name) if ours else 0
            # One above all ports is held by nobody (`gateway/routes.py`), and has its name only once it listens.
            is_held = number in range(1 << 16) and _is_held(number)
            if ours and number < 1 << 31 and not is_held and not _answers(path):
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
        probe.setblocking(False)  # do not wait for an owner that accepts no connection any more
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return False
    return True
