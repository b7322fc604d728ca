"""The file, line or archive member that each record was packed from: `train.sources.tsv` beside `train.rec`.

    first line      `# of the .idx `, then its CRC-32: the list of another pack, or a damaged one, is not used
    further lines   key<TAB>name, in the order of the keys

Owns this file's format. The names are for messages alone.
"""

from __future__ import annotations

import contextlib
import zlib
from pathlib import Path
from typing import Iterable, Iterator

import numpy as np

from mxtrain.core import plain_text, regular_files
from mxtrain.data.records import recordio
from mxtrain.data.records.recordio import BadRecord, Ints

_FIRST_LINE = b"# of the .idx %08x\n"


def sources_path(path: Path) -> Path:
    """Return the path of a .rec's list of sources."""
    return path.with_suffix(".sources.tsv")


def first_line(index: Iterable[bytes]) -> bytes:
    """Return the first line, from the bytes of the .idx, which come in parts of any size."""
    checksum = 0
    for part in index:
        checksum = zlib.crc32(part, checksum)
    return _FIRST_LINE % checksum


def line(key: int, name: str) -> bytes:
    """Return the line of one record."""
    return f"{key}\t{plain_text.printable(name)}\n".encode()


class SourceNames:
    """The names by key, kept as the bytes of the file. The keys of a pack count from 0, so a key is a line's number."""

    def __init__(self, text: bytes = b""):
        self._text = text
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n"))
        self._starts = ends + 1  # of all lines but the first, and of none behind the last

    def of(self, key: int) -> str | None:
        """Return the name for a key, or None."""
        number = min(key, len(self._starts) - 1)
        start = int(self._starts[number]) if number >= 0 else 0
        wanted = b"%d\t" % key
        if not self._text.startswith(wanted, start):
            start = self._text.find(b"\n" + wanted) + 1
        if not start:
            return None
        end = self._text.find(b"\n", start)
        return self._text[start + len(wanted) : end].decode("utf-8", "replace")


def read_names(path: Path, index: Path, keys: Ints, offsets: Ints) -> SourceNames:
    """Read the names for the .rec at `path` with these records; BadRecord if they are another pack's."""
    try:
        text = regular_files.read(sources_path(path))
    except FileNotFoundError:
        return SourceNames()
    except OSError as error:
        raise BadRecord(f"cannot be read ({error.strerror})") from None
    if not any(text.startswith(first_line([each])) for each in _indexes(index, keys, offsets)):
        raise BadRecord("is damaged, or belongs to another pack: no sources are named")
    return SourceNames(text)


def _indexes(index: Path, keys: Ints, offsets: Ints) -> Iterator[bytes]:
    """Yield the .idx as it is, which knows damaged records too, and as it is rebuilt where it was lost or damaged."""
    with contextlib.suppress(OSError):
        yield regular_files.read(index)
    yield recordio.format_index(keys, offsets)
