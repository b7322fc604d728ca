"""The files of a run's training set: how fast they are read where they lie, against what the run needs of them.

Owns which files, sizes and rates are compared. The measurement is `doctor/machine/disk_rates.py`'s, the words are
`doctor/machine/disk_advice.py`'s.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, Mapping, Sequence

from mxtrain.core.system import machine
from mxtrain.doctor.machine import disk_advice, disk_rates, disk_writes
from mxtrain.doctor.machine.disk_advice import Near

IN_MEMORY = ("tmpfs", "ramfs")  # file systems that are no disk


def examine(
    files: Sequence[Path], num_samples: int, samples_per_second: float, decoded_bytes: int
) -> dict[str, Any] | None:
    """Return the rates of reading `files`, and `advice` for a run that computes so many samples a second.

    None for a set that has no files. `decoded_bytes` is what a cache would take; 0: it takes no such data.
    """
    if not files or not num_samples:
        return None
    record_bytes = max(1, sum(file.stat().st_size for file in files) // num_samples)
    found = disk_rates.of_files(files, record_bytes)
    needed = samples_per_second * record_bytes
    free, near = machine.available_memory(), None
    if disk_advice.advise(found, needed, free, decoded_bytes):
        near = local_disk(found["file_system"])
    return {**found, "advice": disk_advice.advise(found, needed, free, decoded_bytes, near)}


def local_disk(other: Mapping[str, Any]) -> Near | None:
    """Return the disk of this machine's folder for temporary files; None where it is the `other` one, or none."""
    folder = tempfile.gettempdir()
    here = disk_rates.file_system(folder)
    if (
        here["network"]
        or here["type"] in IN_MEMORY
        or here["mount"] == other["mount"]
        or not os.access(folder, os.W_OK)
    ):
        return None
    found = disk_writes.of_folder(folder)
    rate = found.get("read_bytes_per_second")
    return None if rate is None else Near(folder, rate, found["free_bytes"])
