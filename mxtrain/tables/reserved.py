"""Arrays that grow in place: address space for all they may become, memory for what is used of it.

An array that is made anew at twice its size needs three times its memory while it is copied; the rows of a table are
most of what a server has. Linux gives address space without memory, and memory page by page as it is written.
"""

from __future__ import annotations

import math
import mmap
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

MAP_NORESERVE = 0x4000  # of Linux; Python's mmap does not name it before 3.13


class Reserved:
    """An array of up to `capacity` entries of `shape`, zeros until they are written, in memory or in a file.

    The file has no name, and goes with the array. Entries are there from the first on, as far as `grow` has made them.
    """

    def __init__(self, capacity: int, shape: tuple[int, ...], dtype: Any, folder: Path | None = None):
        self._entry_bytes = max(1, math.prod(shape)) * np.dtype(dtype).itemsize
        num_bytes = max(mmap.PAGESIZE, capacity * self._entry_bytes)
        self._file: int | None = None
        if folder is None:
            kind = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
            content = mmap.mmap(-1, num_bytes, flags=kind)
            content.madvise(mmap.MADV_HUGEPAGE)
        else:
            with tempfile.TemporaryFile(dir=folder) as file:
                os.ftruncate(file.fileno(), num_bytes)
                content = mmap.mmap(file.fileno(), num_bytes)
                self._file = os.dup(file.fileno())
        self._num_on_disk = 0
        self.array = np.frombuffer(content, dtype, capacity * max(1, math.prod(shape))).reshape(
            capacity, *shape
        )

    @property
    def is_in_memory(self) -> bool:
        """Return whether no file holds the array."""
        return self._file is None

    def grow(self, count: int) -> None:
        """Make sure that `count` entries have room on the disk; OSError where they have none.

        Without it a full disk would end the process at the first write.
        """
        if self._file is not None and count > self._num_on_disk:
            start = self._num_on_disk * self._entry_bytes
            os.posix_fallocate(self._file, start, count * self._entry_bytes - start)
            self._num_on_disk = count

    def close(self) -> None:
        """Give the file up; the array stays readable as long as it is used."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __del__(self) -> None:
        self.close()
