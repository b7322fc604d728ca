"""Rates of reading files where they lie: in order and record by record, by several threads, uncached where possible.

Owns the measurement; what its numbers mean for a run is `disk_advice.py`'s. Reads as the loader does, with pread, and
writes nothing. Pages are dropped from the system's memory first, which needs no root; those that stay, as of a tmpfs,
are counted.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import threading
import time
from pathlib import Path
from typing import Any, Callable, Iterator, Sequence

from mxtrain.core.errors import DataError

THREADS = (1, 4, 16)
SECONDS = 0.5  # of each measurement
PIECE = 1 << 20  # bytes of a sequential read
RECORD_BYTES = 128 << 10  # about a JPEG of ImageNet's; where no other size is given
MOST_BYTES = 256 << 20  # of one measurement; what is read takes room in the system's memory
LOOKED_AT = 64  # pages that are asked whether they are in memory
# By Linux's names; of FUSE's the name is the mount's, as fuse.hadoop-fuse-dfs or fuse.sshfs.
OVER_A_NETWORK = {
    *(
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "lustre",
        "ceph",
        "beegfs",
        "gpfs",
        "glusterfs",
        "afs",
        "9p",
        "orangefs",
        "pvfs2",
    ),
    *("panfs", "virtiofs", "wekafs", "ocfs2", "gfs2"),
}
LOCAL_FUSE = ("fuse.fuse-overlayfs", "fuse.ntfs-3g", "fuse.lxcfs", "fuseblk")

Ranges = Sequence["tuple[int, int, int]"]  # file, offset, bytes


def of_files(
    paths: Sequence[str | Path], record_bytes: int = RECORD_BYTES, seconds: float = SECONDS
) -> dict[str, Any]:
    """Return the `bytes` of the files, their `file_system`, and the bytes a second at which they are read.

    `sequential` has the rate of large pieces in order, `records` that of pieces of `record_bytes` at random places,
    each by the number of threads. `cold` is the share of it all that came from the disk or network and not from memory.
    Takes about six times `seconds`. DataError for a file that cannot be read.
    """
    with _opened(paths) as files:
        sizes = [os.fstat(file).st_size for file in files]
        if not sum(sizes):
            raise DataError(f"{paths[0]}: it is empty, so no rate can be measured")
        for file in files:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        cold = 1 - _share_in_memory(files, sizes)
        chosen = random.Random(0)
        rates: dict[str, dict[int, float]] = {}
        for name, num_bytes in (("records", record_bytes), ("sequential", PIECE)):
            rates[name] = {}
            for num_threads in THREADS:
                ranges = _pieces(sizes, num_bytes, chosen, in_order=name == "sequential")
                rates[name][num_threads] = _rate(files, ranges, num_threads, seconds)
                for file in files:
                    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    return {
        **{"files": len(sizes), "bytes": sum(sizes), "record_bytes": record_bytes, "cold": round(cold, 2)},
        **{"file_system": file_system(paths[0]), **rates},
    }


def file_system(path: str | Path, mounts: str | None = None) -> dict[str, Any]:
    """Return the `type` of the file system of `path`, its `mount` and `source`, and if it is over a `network`."""
    if mounts is None:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    real, system = os.path.realpath(path), {"type": "unknown", "mount": "", "source": "", "network": False}
    longest = 0
    for line in filter(None, mounts.splitlines()):
        before, _, after = line.partition(" - ")
        mount = before.split()[4].encode().decode("unicode_escape")  # a blank is \040
        is_above = real == mount or real.startswith(mount.rstrip("/") + "/")
        if is_above and len(mount) >= longest:  # the last of several on one folder is what is seen
            system_type, source = after.split()[:2]
            system = {
                "type": system_type,
                "mount": mount,
                "source": source,
                "network": is_over_a_network(system_type),
            }
            longest = len(mount)
    return system


def is_over_a_network(system_type: str) -> bool:
    """Return whether a file system of this type has its data elsewhere, as far as the name of the type tells."""
    return system_type in OVER_A_NETWORK or (system_type.startswith("fuse") and system_type not in LOCAL_FUSE)


@contextlib.contextmanager
def _opened(paths: Sequence[str | Path]) -> Iterator[list[int]]:
    files: list[int] = []
    try:
        for path in paths:
            try:
                files.append(os.open(path, os.O_RDONLY))
            except OSError as error:
                raise DataError(f"{path}: {error.strerror}; give files that can be read") from None
        yield files
    finally:
        for file in files:
            os.close(file)


def _share_in_memory(files: Sequence[int], sizes: Sequence[int]) -> float:
    """Return the share of pages that are read without waiting; 0 where the file system cannot tell."""
    chosen, found = random.Random(1), []
    for _ in range(LOOKED_AT):
        file, offset, _ = _random_piece(sizes, 4096, chosen)
        try:
            found.append(bool(os.preadv(files[file], [bytearray(1)], offset, os.RWF_NOWAIT)))
        except OSError as error:
            if error.errno != errno.EAGAIN:  # a network's may know no such flag
                return 0.0
            found.append(False)
    return sum(found) / len(found)


def _random_piece(sizes: Sequence[int], num_bytes: int, chosen: random.Random) -> tuple[int, int, int]:
    """Return a place somewhere in the files, each byte as likely as another."""
    (file,) = chosen.choices(range(len(sizes)), sizes)
    return file, chosen.randrange(max(1, sizes[file] - num_bytes)), min(num_bytes, sizes[file])


def _pieces(sizes: Sequence[int], num_bytes: int, chosen: random.Random, in_order: bool) -> Ranges:
    """Return the pieces of a measurement: as many as are in MOST_BYTES, or in the files."""
    count = max(1, min(MOST_BYTES, sum(sizes)) // num_bytes)
    if not in_order:
        return [_random_piece(sizes, num_bytes, chosen) for _ in range(count)]
    places = [
        (file, at, min(num_bytes, size - at))
        for file, size in enumerate(sizes)
        for at in range(0, size, num_bytes)
    ]
    start = chosen.randrange(max(1, len(places) - count + 1))
    return places[start : start + count]


def _rate(files: Sequence[int], ranges: Ranges, num_threads: int, seconds: float) -> float:
    """Return the bytes a second that so many threads read of these pieces, one each at least, for `seconds`."""
    remaining, read = iter(ranges), [0] * num_threads
    lock, started = threading.Lock(), time.monotonic()

    def work(number: int) -> None:
        while True:
            with lock:
                piece = next(remaining, None)
            if piece is None:
                return
            file, offset, num_bytes = piece
            with contextlib.suppress(
                OSError
            ):  # a file that has become unreadable: the run itself will say so
                read[number] += len(os.pread(files[file], num_bytes, offset))
            if time.monotonic() - started > seconds:
                return

    in_threads(work, num_threads)
    return sum(read) / max(1e-9, time.monotonic() - started)


def in_threads(work: Callable[[int], None], num_threads: int) -> None:
    """Run `work` in so many threads, each with its number, until all are done."""
    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(num_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
