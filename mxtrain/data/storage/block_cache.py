"""Blocks of remote files, kept on disk: shared by the processes of a host, bounded, checked, safe against kills.

    FOLDER/blocks/DIGEST/START-END      the bytes, then their CRC-32 in four bytes
    FOLDER/blocks/DIGEST/START-END.new  one that is being fetched, locked by who fetches it

DIGEST is that of the file's address and tag, so a replaced file has blocks of its own. A block appears by a rename. Of
several processes that want one, one fetches it and the others wait; where that one is killed its lock goes with it.
When there are more than the limit, those that were not used for longest go; one that is open can still be read.
"""

from __future__ import annotations

import collections
import errno
import fcntl
import hashlib
import os
import struct
import threading
import time
from pathlib import Path
from typing import Callable, Union

from mxtrain import native
from mxtrain.core.errors import OutOfResources
from mxtrain.data.storage import cache_room
from mxtrain.data.storage.options import StorageOptions

Fetch = Callable[[], Union[bytes, memoryview]]
MOST_OPEN = 64  # blocks of a process
_CRC = struct.Struct("<I")
_POLL = 0.01
_FULL = (errno.ENOSPC, errno.EDQUOT)


class BlockCache:
    """The blocks of one remote file. Safe from many threads and processes."""

    def __init__(self, options: StorageOptions, name: str):
        self._options = options
        root = options.cache_folder / "blocks"
        self._room = cache_room.of_folder(root, options)
        self._folder = root / hashlib.sha256(name.encode()).hexdigest()[:24]
        self._open: collections.OrderedDict[int, _Block] = collections.OrderedDict()
        self._lock = threading.Lock()
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise OutOfResources(self._unusable(error)) from None

    def block(self, start: int, end: int, fetch: Fetch) -> _Block:
        """Return the block of these bytes, open; `fetch` gets them from the store where it is not there."""
        with self._lock:
            known = self._open.get(start)
            if known is not None:
                self._open.move_to_end(start)
                return known
        path = self._folder / f"{start}-{end}"
        opened = self._opened(path, end - start)
        while opened is None:
            self._fill(path, fetch)
            opened = self._opened(path, end - start)
        with self._lock:
            self._open[start] = opened
            while len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)
        return opened

    def ensure(self, start: int, end: int, fetch: Fetch) -> None:
        """Have a block on disk, without looking into it."""
        path = self._folder / f"{start}-{end}"
        if not self.touch(start, end):
            self._fill(path, fetch)

    def touch(self, start: int, end: int) -> bool:
        """Return whether a block is there, which counts as its use."""
        try:
            os.utime(self._folder / f"{start}-{end}")
            return True
        except OSError:
            return False

    def _opened(self, path: Path, num_bytes: int) -> _Block | None:
        """Return a block, compared with its checksum; None where there is none, or a damaged one, which goes."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise OutOfResources(self._unusable(error)) from None
        block = _Block(descriptor)
        content = memoryview(block.read(0, num_bytes + _CRC.size + 1))
        is_whole = len(content) == num_bytes + _CRC.size
        if is_whole and native.crc32(content[:-4]) == _CRC.unpack(content[-4:])[0]:
            os.utime(path)
            return block
        path.unlink(missing_ok=True)
        return None

    def _fill(self, path: Path, fetch: Fetch) -> None:
        """Fetch a block, or wait for the process that does."""
        aside = path.with_name(path.name + ".new")
        try:
            file = self._alone(aside, path)
            if file is None:
                return
            with os.fdopen(file, "wb") as new:
                data = fetch()
                self._write(new.fileno(), data)
                os.replace(aside, path)
        except OSError as error:
            raise OutOfResources(self._unusable(error)) from None
        self._room.take(len(data) + _CRC.size)

    def _alone(self, aside: Path, path: Path) -> int | None:
        """Return a descriptor of the new block, locked; None where another one has finished it meanwhile."""
        deadline = time.monotonic() + self._options.patience + 60
        while not path.exists():
            descriptor = os.open(aside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_new = os.path.samestat(os.fstat(descriptor), aside.stat())
                if is_new and path.exists():  # another one has finished it since we looked
                    aside.unlink()
                elif is_new:
                    os.truncate(descriptor, 0)
                    return descriptor
            except BlockingIOError:
                if time.monotonic() > deadline:  # a process that was stopped in the middle
                    aside.unlink(missing_ok=True)
                time.sleep(_POLL)
            except FileNotFoundError:
                pass
            os.close(descriptor)
        return None

    def _write(self, descriptor: int, data: bytes | memoryview) -> None:
        checksum = _CRC.pack(native.crc32(data))
        for attempt in range(2):
            try:
                _write_at(descriptor, memoryview(data), 0)
                _write_at(descriptor, memoryview(checksum), len(data))
                return
            except OSError as error:
                if attempt or error.errno not in _FULL:
                    raise
                self._room.shrink(self._room.num_bytes() // 2)

    def _unusable(self, error: OSError) -> str:
        folder = self._options.cache_folder
        return (
            f"the cache of object storage in {folder} cannot be used ({error.strerror}); make room, or give another "
            "folder as --storage-cache, or less as --storage-cache-mb"
        )


def _write_at(descriptor: int, content: memoryview, offset: int) -> None:
    at = 0
    while at < len(content):
        at += os.pwrite(descriptor, content[at:], offset + at)


class _Block:
    """An open block; it can be read even when it has gone from the cache."""

    def __init__(self, descriptor: int):
        self._descriptor = descriptor

    def __del__(self) -> None:
        os.close(self._descriptor)

    def read(self, offset: int, num_bytes: int) -> bytes:
        """Return bytes from an offset in the block."""
        return os.pread(self._descriptor, num_bytes, offset)
