"""The disk of a run folder: space, rates of writing and reading back, and how long it takes until bytes are safe.

Owns the measurement, in a file of its own that it removes.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from mxtrain.doctor.machine import disk_rates

SECONDS = 1.0  # of writing
PIECE = bytes(1 << 22)
MOST_PIECES = 64
SYNCS = 8
SPARE = 4  # times the most that is written has to be free


def of_folder(folder: str | Path, seconds: float = SECONDS) -> dict[str, Any]:
    """Return the `free_bytes`, the rates and the latency of the disk of `folder`, which need not be there yet.

    `error` is None, or why it cannot be written to. A full disk is not filled further: its rates are left out.
    """
    near = Path(folder).absolute()
    while not near.is_dir():
        near = near.parent
    space = os.statvfs(near)
    measured: dict[str, Any] = {
        **{"folder": str(folder), "free_bytes": space.f_bavail * space.f_frsize, "error": None},
        "file_system": disk_rates.file_system(near),
    }
    if measured["free_bytes"] < SPARE * len(PIECE) * MOST_PIECES:
        return measured
    try:
        with tempfile.NamedTemporaryFile(dir=near, prefix=".mxtrain-probe-") as file:
            measured.update(_measured(file.fileno(), file.name, seconds))
    except OSError as error:
        measured["error"] = error.strerror or str(error)
    return measured


def _measured(file: int, path: str, seconds: float) -> dict[str, Any]:
    started, num_bytes = time.monotonic(), 0
    for _ in range(MOST_PIECES):
        num_bytes += os.write(file, PIECE)
        if time.monotonic() - started > seconds:
            break
    os.fsync(file)
    write = num_bytes / (time.monotonic() - started)
    syncs = []
    for _ in range(SYNCS):
        os.pwrite(file, b"0" * 4096, 0)
        began = time.monotonic()
        os.fsync(file)
        syncs.append(time.monotonic() - began)
    read = {}
    with contextlib.suppress(Exception):  # what cannot be read back is said by the rates that are missing
        read = {"read_bytes_per_second": max(disk_rates.of_files([path], seconds=0.1)["sequential"].values())}
    return {"write_bytes_per_second": write, "sync_milliseconds": 1e3 * statistics.median(syncs), **read}
