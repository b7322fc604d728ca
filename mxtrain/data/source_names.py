"""Which file, or line, or member of an archive, each record was packed from: `train.sources.tsv` beside `train.rec`.

    first line      `# of the .idx `, then its CRC-32: the list of another pack, or a damaged one, names nothing
    further lines   key<TAB>name, in the order of the keys

Nothing is decided by these names; they are for messages.
"""

from __future__ import annotations

import contextlib
import zlib
from pathlib import Path
from typing import Iterable, Iterator

import numpy as np

from mxtrain.core import plain_text, regular_files
from mxtrain.data import recordio
from mxtrain.data.recordio import BadRecord, Ints

_FIRST_LINE = b"# of the .idx %08x\n"


def sources_path(path: Path) -> Path:
    return path.with_suffix(".sources.tsv")


def first_line(index: Iterable[bytes]) -> bytes:
    """The first line, from the bytes of the .idx, in parts of any size."""
    checksum = 0
    for part in index:
        checksum = zlib.crc32(part, checksum)
    return _FIRST_LINE % checksum


def line(key: int, name: str) -> bytes:
    return f"{key}\t{plain_text.printable(name)}\n".encode()


class SourceNames:
    """Names by key, kept as the bytes of the file. A pack's keys count from 0, so that a key is a line as well."""

    def __init__(self, text: bytes = b""):
        self._text = text
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n"))
        self._starts = ends + 1  # of all lines but the first, and of none behind the last

    def of(self, key: int) -> str | None:
        place = min(key, len(self._starts) - 1)
        start = int(self._starts[place]) if place >= 0 else 0
        wanted = b"%d\t" % key
        if not self._text.startswith(wanted, start):
            start = self._text.find(b"\n" + wanted) + 1
        if not start:
            return None
        end = self._text.find(b"\n", start)
        return self._text[start + len(wanted) : end].decode("utf-8", "replace")


def read_names(path: Path, index: Path, keys: Ints, offsets: Ints) -> SourceNames:
    """The names for a .rec with these records, none where there are none; BadRecord if they are another pack's."""
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
    """The .idx, which tells even of damaged records; and as it is written again, where itself is lost or damaged."""
    with contextlib.suppress(OSError):
        yield regular_files.read(index)
    yield recordio.format_index(keys, offsets)
