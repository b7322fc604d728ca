"""The bytes of a local file.

They are read with pread, not mapped: a mapped file that shrinks or lies on a failing disk kills the process.
"""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import Any, Sequence

from mxtrain.core import regular_files


class LocalBytes:
    """An open file. `RemoteBytes` has the same methods."""

    is_remote = False

    def __init__(self, path: Path):
        self._descriptor = regular_files.open_descriptor(path)
        weakref.finalize(self, os.close, self._descriptor)
        self.num_bytes = os.fstat(self._descriptor).st_size

    def read(self, offset: int, num_bytes: int) -> bytes:
        """Return bytes from an offset on, fewer at the end of the file."""
        return os.pread(self._descriptor, num_bytes, offset)

    def spans(self, starts: Sequence[int], ends: Sequence[int]) -> list[bytes]:
        """Return the bytes from each start to its end, fewer where the file has become shorter."""
        descriptor = self._descriptor
        return [os.pread(descriptor, end - start, start) for start, end in zip(starts, ends)]

    def will_need(self, starts: Sequence[int], ends: Sequence[int]) -> None:
        """Ask the kernel to read these bytes ahead."""
        for start, end in zip(starts, ends):
            os.posix_fadvise(self._descriptor, start, end - start, os.POSIX_FADV_WILLNEED)

    def cut(self, starts: Any) -> None:
        """Take note of where records start, sorted: nothing to a local file."""
