"""The files that a user names to a command: those under a folder, those that match a pattern, those that stdin lists.

Owns which they are and their order. Does not read them, nor say what they hold.
"""

from __future__ import annotations

import collections
import glob
import itertools
import os
import select
import sys
from pathlib import Path
from typing import Counter, Iterator, Sequence

from mxtrain.core.errors import DataError, UsageError

PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".gif", ".avif", ".ico")
LISTED = "-"  # the name of what stdin lists
_AT_ONCE = 1 << 16
_ENOUGH = 12  # bytes to see what it is
# How a picture begins, in bytes with which no list of names does.
_MAGIC = (b"\xff\xd8\xff", b"\x89PNG\r\n", b"II*\0", b"MM\0*", b"GIF87a", b"GIF89a")


class Folder:
    """The files under a folder at any depth whose names end in one of `suffixes`, or all, sorted by their paths' parts.

    Hidden files and folders are passed over. Links are followed; no folder is entered twice.
    """

    def __init__(self, path: Path, suffixes: Sequence[str] = ()):
        self.path = path
        self.left_out: Counter[str] = collections.Counter()  # files of other suffixes, by these
        self.problems: list[str] = []  # of folders in it that cannot be read
        self._suffixes = tuple(suffixes)
        self._entered: set[tuple[int, int]] = set()

    def __iter__(self) -> Iterator[Path]:
        return self._under(self.path)

    def all_files(self) -> list[Path]:
        """Return all files; DataError where a folder cannot be read."""
        found = list(self)
        if self.problems:
            raise DataError(self.problems[0])
        return found

    def _under(self, folder: Path) -> Iterator[Path]:
        try:
            status = os.stat(folder)
            if (status.st_dev, status.st_ino) in self._entered:
                return
            self._entered.add((status.st_dev, status.st_ino))
            names = sorted(_visible(folder))
        except OSError as error:
            self.problems.append(f"{folder}: cannot be read ({error.strerror})")
            return
        for name, is_folder in names:
            if is_folder:
                yield from self._under(folder / name)
            elif not self._suffixes or name.lower().endswith(self._suffixes):
                yield folder / name
            else:
                self.left_out[os.path.splitext(name)[1].lower() or name] += 1


def _visible(folder: Path) -> Iterator[tuple[str, bool]]:
    with os.scandir(folder) as entries:
        yield from ((entry.name, is_folder(entry)) for entry in entries if not entry.name.startswith("."))


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a folder or a link to one; a circular link is none."""
    return os.path.isdir(entry.path) if entry.is_symlink() else entry.is_dir()


def matching(path: Path) -> list[Path]:
    """Return the path itself, or, where it does not exist and is a pattern, what matches it, sorted."""
    text = os.fspath(path)
    if not glob.has_magic(text) or os.path.lexists(path):
        return [path]
    found = sorted(map(Path, glob.glob(text, recursive=True)))
    if not found:
        raise DataError(f"{path}: no file matches the pattern")
    return found


def stdin() -> int:
    """Return the descriptor of stdin; its number may be another file's where it was closed before Python began."""
    if sys.stdin is None:
        raise UsageError(f"{LISTED}: standard input is closed; give it a list")
    return sys.stdin.fileno()


def listed(descriptor: int) -> Iterator[bytes | Path | None]:
    """Yield the paths that a list holds: a line each, or each with a NUL behind it where the list has one at its start.

    None whenever no more has come by now, so that a caller can see to what it has. The bytes of a picture, which is
    no list, are yielded as they are.
    """
    read, waiting = _read(descriptor), b""
    has_paused = False
    for first in read:
        waiting += first or b""
        has_paused = first is None and waiting != b""
        if len(waiting) >= _ENOUGH or has_paused:
            break
    if waiting.startswith(_MAGIC) or (waiting[:4] == b"RIFF" and waiting[8:12] == b"WEBP"):
        yield b"".join([waiting, *filter(None, read)])
        return
    end, also = (b"\0", b"") if b"\0" in waiting else (b"\n", b"\r")
    for part in itertools.chain([None if has_paused else b""], read):
        *lines, waiting = (waiting + (part or b"")).split(end)
        yield from (Path(os.fsdecode(line)) for line in (line.rstrip(also) for line in lines) if line)
        if part is None:
            yield None
    if waiting:
        yield Path(os.fsdecode(waiting))


def _read(descriptor: int) -> Iterator[bytes | None]:
    """Yield what can be read, up to its end; None before each time that there is nothing yet."""
    while True:
        try:
            if not select.select([descriptor], [], [], 0)[0]:
                yield None
            part = os.read(descriptor, _AT_ONCE)
        except OSError as error:
            raise UsageError(f"{LISTED}: standard input cannot be read ({error.strerror})") from None
        if not part:
            return
        yield part
