"""Reading regular files only: reading a named pipe, a socket or a device may never end.

Anything else raises an OSError that says what it is, before it is opened: opening a device may already do something.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path, PurePath

_AT_ONCE = 1 << 20
_REFUSED_TYPES = {
    stat.S_IFIFO: "a named pipe, not a file",
    stat.S_IFSOCK: "a socket, not a file",
    stat.S_IFCHR: "a device, not a file",
    stat.S_IFBLK: "a device, not a file",
}


def require(path: str | PurePath) -> None:
    """Raise OSError unless `path` is, or links to, a regular file."""
    _require(os.stat(path), path)


def problem(path: str | PurePath) -> str | None:
    """Return why `path` cannot be read as a file; None if it can."""
    try:
        require(path)
    except FileNotFoundError:
        return "no such file"
    except IsADirectoryError:
        return "is a folder, give its files"
    except OSError as error:
        return error.strerror
    return None


def open_descriptor(path: str | Path) -> int:
    """Return a file descriptor of the regular file, open for reading."""
    require(path)
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        _require(os.fstat(opened), path)  # it may have been exchanged meanwhile
    except BaseException:
        os.close(opened)
        raise
    return opened


def read(path: str | Path) -> bytes:
    """Return the content of the regular file."""
    descriptor = open_descriptor(path)
    try:
        size = os.fstat(descriptor).st_size
        # Without a file object around it, which takes as long as the reading.
        parts = [os.read(descriptor, size + 1)]
        if len(parts[0]) != size or not size:
            while parts[-1]:
                parts.append(os.read(descriptor, _AT_ONCE))
        return b"".join(parts)
    finally:
        os.close(descriptor)


def _require(status: os.stat_result, path: str | PurePath) -> None:
    file_type = stat.S_IFMT(status.st_mode)
    if file_type == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if file_type in _REFUSED_TYPES:
        raise OSError(errno.EINVAL, _REFUSED_TYPES[file_type], os.fspath(path))
