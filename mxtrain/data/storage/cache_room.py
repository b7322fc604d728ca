"""The room of the cache of blocks: how much all blocks take, and which of them go when they are too much.

Looking at every block takes milliseconds, so it is done once for several that are fetched; not for many, as other
processes of the host fill the same cache.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from pathlib import Path

from mxtrain.data.storage.options import StorageOptions

# Of the cache: what goes beyond need when it is full; a fourth of that is written without a look.
_SHARE = 16


@functools.lru_cache(maxsize=None)
def of_folder(root: Path, options: StorageOptions) -> CacheRoom:
    """Return the room of a folder, the same for all files of this process."""
    return CacheRoom(root, options)


class CacheRoom:
    """The blocks of all files under a folder."""

    def __init__(self, root: Path, options: StorageOptions):
        self._root, self._options = root, options
        self._unseen = 0  # bytes that may be written before the blocks are looked at
        self._lock = threading.Lock()

    def take(self, num_bytes: int) -> None:
        """Take note of a block that was written, and remove others where there are too many."""
        with self._lock:
            self._unseen -= num_bytes
            if self._unseen >= 0:
                return
            most, block = self._options.cache_bytes, self._options.block_bytes
            total = self.num_bytes()
            if total > most:
                total = self.shrink(most - most // _SHARE // block * block)
            self._unseen = min(max(0, most - total), most // _SHARE) // 4

    def num_bytes(self) -> int:
        """Return how much all blocks of all files take."""
        return sum(size for _, size, _ in self._blocks())

    def shrink(self, most: int) -> int:
        """Remove the blocks that were not used for longest until `most` bytes are left; return what is left."""
        blocks = sorted(self._blocks())
        left = sum(size for _, size, _ in blocks)
        for _, size, path in blocks:
            if left <= most:
                break
            try:
                os.unlink(path)
            except FileNotFoundError:
                continue  # another process is at it
            left -= size
        return left

    def _blocks(self) -> list[tuple[int, int, str]]:
        """Return when each block was used last, its size and its path; those that are being fetched do not count."""
        blocks: list[tuple[int, int, str]] = []
        for folder in os.scandir(self._root):
            for entry in os.scandir(folder.path):
                try:
                    status = entry.stat()
                except FileNotFoundError:
                    continue
                is_new = entry.name.endswith(".new")
                if not is_new or time.time() - status.st_mtime > 3600 + self._options.patience:
                    blocks.append((status.st_mtime_ns, status.st_size, entry.path))
        return blocks
