"""Arrays that grow in place: address space for all they may become, memory for what is used of it.

An array that is made anew at twice its size needs three times its memory while it is copied; the rows of a table are
most of what a server has. Linux gives address space without memory, and memory page by page as it is written.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

HUGE_FROM = 32 << 20  # bytes of an array that is worth pages of 2 MB, which make rows at random places faster
MAP_NORESERVE = 0x4000  # of Linux; Python's mmap does not name it before 3.13


class Reserved:
    """An array of up to `capacity` entries of `shape`, zeros until they are written, in memory or in a file.

    The file has no name, and goes with the array. Entries are there from the first on, as far as `grow` has made them.
    """

    def __init__(self, capacity: int, shape: tuple[int, ...], dtype: Any, folder: Path | None = None):
        num_items = capacity * math.prod(shape)
        self._entry_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        num_bytes = max(mmap.PAGESIZE, capacity * self._entry_bytes)
        self._file: int | None = None
        if folder is None:
            kind = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
            self._content = mmap.mmap(-1, num_bytes, flags=kind)
        else:
            with tempfile.TemporaryFile(dir=folder) as file:
                os.ftruncate(file.fileno(), num_bytes)
                self._content = mmap.mmap(file.fileno(), num_bytes)
                self._file = os.dup(file.fileno())
        self._num_ready = 0
        self.array = np.frombuffer(self._content, dtype, num_items).reshape(capacity, *shape)

    @property
    def is_in_memory(self) -> bool:
        """Return whether no file holds the array."""
        return self._file is None

    def grow(self, count: int) -> None:
        """Make `count` entries ready; OSError where the disk has no room for them.

        Without it a full disk would end the process at the first write.
        """
        start, end = self._num_ready * self._entry_bytes, count * self._entry_bytes
        if end <= start:
            return
        if self._file is not None:
            os.posix_fallocate(self._file, start, end - start)
        elif start < HUGE_FROM <= end:
            with contextlib.suppress(OSError):  # where Linux has no such pages
                self._content.madvise(mmap.MADV_HUGEPAGE)
        self._num_ready = count

    def __del__(self) -> None:
        if getattr(self, "_file", None) is not None:
            os.close(self._file)  # type: ignore[arg-type]
