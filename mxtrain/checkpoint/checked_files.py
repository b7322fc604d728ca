"""Files of a checkpoint on their way to the disk, and the lengths and checksums by which they are known again.

Owns how a file is written, synced and summed; which files a checkpoint has, and its manifest, is `directory.py`'s.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import Any, Callable, Iterable

from mxtrain.cluster.worker_group import SINGLE_WORKER
from mxtrain.core.params_file import Chunk

SYNC_BYTES = 64 << 20  # synced at a time, so that a slow disk differs from a dead one


def write(
    path: Path, chunks: Iterable[Chunk], report_progress: Callable[[], None] = SINGLE_WORKER.report_progress
) -> dict[str, Any]:
    """Write and sync a file; return the length and checksum of the data given, not of the data on the disk."""
    num_bytes, checksum, synced = 0, 0, 0
    with path.open("wb") as file:
        for chunk in chunks:
            file.write(chunk)
            num_bytes += len(chunk)
            checksum = zlib.crc32(chunk, checksum)
            if num_bytes - synced >= SYNC_BYTES:
                file.flush()
                os.fdatasync(file.fileno())
                synced = num_bytes
                report_progress()
        file.flush()
        os.fsync(file.fileno())
    report_progress()
    return _sum(num_bytes, checksum)


def sum_of(path: Path) -> dict[str, Any]:
    """Return the length and checksum of a file, as `write` returned them."""
    num_bytes, checksum = 0, 0
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            num_bytes += len(block)
            checksum = zlib.crc32(block, checksum)
    return _sum(num_bytes, checksum)


def _sum(num_bytes: int, checksum: int) -> dict[str, Any]:
    """Return a manifest entry. CRC32 finds damage as well as SHA-256, which takes 3 to 30 times as long."""
    return {"bytes": num_bytes, "crc32": f"{checksum:08x}"}
