"""MXNet's arrays in files, of which only what is in use has to be in memory."""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import tempfile
from pathlib import Path
from typing import Iterator

import numpy as np

from mxtrain.core import durable
from mxtrain.runtime import mx
from mxtrain.runtime.types import NDArray


def zeros(shape: tuple[int, ...], folder: Path | None = None) -> NDArray:
    """Return zeros, float32: in memory, or in a file of `folder` without a name, which goes with the array."""
    if folder is None:
        return mx.nd.zeros(shape)
    num_bytes = 4 * math.prod(shape)
    with errors_named(folder), tempfile.TemporaryFile(dir=folder) as file:
        os.posix_fallocate(
            file.fileno(), 0, num_bytes
        )  # a disk without room would kill the process that writes
        content = mmap.mmap(file.fileno(), num_bytes)
    numbers = np.frombuffer(content, np.float32).reshape(shape)
    return mx.nd.from_numpy(numbers, zero_copy=True)


@contextlib.contextmanager
def errors_named(folder: Path) -> Iterator[None]:
    """A block in which files of `folder` are made: an OSError in it becomes one with the flag's name."""
    try:
        yield
    except OSError as error:
        refused = durable.cannot_write(folder, error)
        raise type(refused)(f"--store-dir {refused}") from None


def open_folder(name: str) -> Path | None:
    """Return the folder that --store-dir names, made if it is not there; None for an empty name."""
    if not name:
        return None
    folder = Path(name)
    with errors_named(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return folder
