"""Files that are complete after a kill and after a power cut, and the errors where they cannot be written."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from typing import BinaryIO, Iterator

from mxtrain.core.errors import REMEDIES, OutOfResources, UsageError

GONE = (errno.ENOENT, errno.ESTALE)
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
OF_PATHS = {
    errno.EEXIST: "it is a file, where a folder has to be",
    errno.ENOTDIR: "a folder on the way there is a file",
}


def fsync(path: Path) -> None:
    """Return when a file's content, or a folder's list of names, is on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace(path: Path, text: str) -> None:
    """Replace a file's content; after a kill it is either the old or the new one. An OSError names the file."""
    aside = path.with_name(path.name + ".writing")
    try:
        aside.write_text(text, encoding="utf-8")
        fsync(aside)
        aside.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            aside.unlink()
        if error.filename is None:  # a write that fails knows none
            error.filename = str(path)
        raise
    fsync(path.parent)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a file that takes the place of the one at `path` after the block, or, where that is left early, goes.

    UsageError where there can be none.
    """
    target = Path(os.path.realpath(path))
    if os.path.exists(target) and not os.path.isfile(target):
        raise UsageError(
            f"{path}: is {'a folder' if target.is_dir() else 'no file'}; give the name of a file"
        )
    aside = target.with_name(target.name + ".writing")
    try:
        with aside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        aside.replace(target)
        fsync(target.parent)
    except OSError as error:
        if error.filename in (None, str(aside), aside):
            raise cannot_write(path, error) from None
        raise
    finally:
        with contextlib.suppress(OSError):
            aside.unlink()


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """A block that writes to a run's folder: an OSError in it ends the run with a line that names the file."""
    try:
        yield
    except OSError as error:
        raise cannot_write_run(Path(error.filename2 or error.filename or path), error) from None


def cannot_write_run(path: Path, error: OSError) -> UsageError:
    """Return the error for a file of a run's folder that cannot be written; the run can be continued."""
    refused = cannot_write(path, error)
    if error.errno in GONE:
        remedy = "; was the run's folder removed or moved away? put it back"
    else:
        remedy = "" if isinstance(refused, OutOfResources) else "; put that right"
    return type(refused)(f"{refused}{remedy}, then the same command resumes")


def cannot_write(path: Path, error: OSError) -> UsageError:
    """Return the error for a file that cannot be written: OutOfResources, with a remedy, where that is why."""
    message = f"{path}: cannot be written ({error.strerror or error})"
    if error.errno in REMEDIES:
        return OutOfResources(f"{message}; {REMEDIES[error.errno]}")
    return UsageError(f"{message}; {OF_PATHS[error.errno]}" if error.errno in OF_PATHS else message)
