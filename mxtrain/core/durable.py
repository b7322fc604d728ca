"""Files that are whole after a kill and after a power cut, and what is said where they cannot be."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from typing import Iterator

from mxtrain.core.errors import CURES, UsageError

GONE = (errno.ENOENT, errno.ESTALE)


def fsync(path: Path) -> None:
    """Return when the file, or the names in the folder, are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace(path: Path, text: str) -> None:
    """Give the file a new content, whole or not at all."""
    aside = path.with_name(path.name + ".writing")
    aside.write_text(text, encoding="utf-8")
    fsync(aside)
    aside.replace(path)
    fsync(path.parent)


@contextlib.contextmanager
def written(path: Path) -> Iterator[None]:
    """A block that writes to a run's folder; what the disk refuses there ends the run, with `path` or a nearer name."""
    try:
        yield
    except OSError as error:
        raise unwritable(Path(error.filename or path), error) from None


def unwritable(path: Path, error: OSError) -> UsageError:
    """The one line on a file of a run's folder that cannot be written."""
    if error.errno in GONE:
        cure = "was the run's folder removed or moved away? put it back"
    else:
        cure = CURES.get(error.errno or 0, "put that right")
    return UsageError(
        f"{path}: cannot be written ({error.strerror or error}); {cure}, then the same command goes on"
    )
