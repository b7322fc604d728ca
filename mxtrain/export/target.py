"""The folder of an export: made aside, and renamed to its place when it is whole.

Owns that at every moment the old export, the new one or none is there, and never a part of one; and the errors of a
folder that cannot be written. Only a folder that holds an export, or nothing, is replaced.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from pathlib import Path
from typing import Iterator

from mxtrain.core.durable import cannot_write, fsync
from mxtrain.core.errors import UsageError

DESCRIBED = "export.json"  # in each export: what it is, and that it is one
MAKING, REPLACED = ".making-", ".replaced-"


@contextlib.contextmanager
def made(folder: Path, flag: str = "--out") -> Iterator[Path]:
    """Yield an empty folder beside `folder`, which takes its place when the block has ended without an error.

    An error or a signal in the block leaves nothing of it; what a kill has left goes with the next export there.
    """
    # ".." has no name to put another beside, a link is not what is replaced, and x/.. is there also without x.
    place = Path(os.path.realpath(folder))
    _refuse_other_content(place, folder, flag)
    aside = place.with_name(MAKING + place.name)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        handle = _locked(aside, folder, flag)
        try:
            _recover(place)
            _empty(aside)
            yield aside
            _put_in_place(aside, place)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
        finally:
            os.close(handle)
    except OSError as error:
        raise cannot_write(_shown(error, aside, folder), error) from None


def _refuse_other_content(place: Path, folder: Path, flag: str) -> None:
    """Refuse to replace what is no export, and what the command is called in; `folder` is the user's word for it."""
    if place.is_dir() and not (place / DESCRIBED).is_file() and any(place.iterdir()):
        raise UsageError(
            f"{flag} {folder}: holds other files than an export, which would be replaced; give a new folder"
        )
    if place.exists() and not place.is_dir():
        raise UsageError(f"{flag} {folder}: is a file; give a folder")
    if place.exists() and any(os.path.samefile(place, each) for each in (Path.cwd(), *Path.cwd().parents)):
        raise UsageError(
            f"{flag} {folder}: is the folder that this command is called in, which would be replaced; give a folder "
            f"in it, such as {place / 'export'}"
        )


def _locked(aside: Path, folder: Path, flag: str) -> int:
    """Make the folder aside, or take over one that a kill has left; return the descriptor that locks it."""
    while True:
        aside.mkdir(exist_ok=True)
        handle = os.open(aside, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(handle), aside.stat()):
                return handle
        except BlockingIOError:
            os.close(handle)
            raise UsageError(f"{flag} {folder}: another export is being made there; wait for it") from None
        except FileNotFoundError:
            pass  # another export has just renamed it
        os.close(handle)


def _recover(folder: Path) -> None:
    """Put back what a kill has kept from being replaced, and delete what it has kept from being deleted."""
    replaced = folder.with_name(REPLACED + folder.name)
    if replaced.exists() and not folder.exists():
        replaced.rename(folder)
    shutil.rmtree(replaced, ignore_errors=True)


def _put_in_place(aside: Path, folder: Path) -> None:
    """Rename the folder aside when all of it is on disk."""
    for path in sorted(aside.rglob("*")):
        fsync(path)
    fsync(aside)
    replaced = folder.with_name(REPLACED + folder.name)
    if folder.exists():
        folder.rename(replaced)
    aside.rename(folder)
    fsync(folder.parent)
    shutil.rmtree(replaced, ignore_errors=True)


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _shown(error: OSError, aside: Path, folder: Path) -> Path:
    """Return the file of an error as it would be called in its place."""
    path = Path(error.filename or folder)
    return folder / path.relative_to(aside) if aside in (path, *path.parents) else path
