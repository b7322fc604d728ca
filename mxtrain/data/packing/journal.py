"""The journal of a pack, OUT.journal beside OUT, from which the same command resumes an interrupted run.

The first line describes the run: all that the bytes written depend on. Each further line is a checkpoint, and all that
it says is on the disk. The journal is also the lock: the process that has it open is the only one that packs into OUT.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from pathlib import Path
from typing import Any, Dict, Iterator, NamedTuple

from mxtrain.core import durable
from mxtrain.core.errors import OutOfResources, Stopped, UsageError
from mxtrain.data.records.record_file import index_path
from mxtrain.data.records.record_writer import aside, open_alone

logger = logging.getLogger(__name__)

Description = Dict[str, Any]  # as JSON brings it back


class PackCheckpoint(NamedTuple):
    """The progress of a run."""

    num_done: int  # items, the bad ones among them
    files: Any  # [Written, bytes of payloads] of each file
    bad: Any  # [position, name, reason] of each bad item
    notes: dict[str, int]
    stamps: str  # digest of the stamps of all items done


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Journal]:
    """A block with the journal at `path`, which goes at the end, but after a signal or a full disk: to resume from."""
    journal = Journal(path)
    try:
        yield journal
    except (Stopped, OutOfResources):
        raise
    except BaseException:
        journal.remove()
        raise
    else:
        journal.remove()
    finally:
        journal.close()


class Journal:
    """The open journal at `path`; UsageError where another process has it."""

    def __init__(self, path: Path):
        self.path = path
        try:
            self._file = open_alone(path)
        except BlockingIOError:
            raise UsageError(f"another process packs into {path.with_suffix('')}: wait for it") from None
        except OSError as error:
            raise UsageError(f"{durable.cannot_write(path, error)}; choose another OUT") from None
        self._num_bad = 0

    def checkpoint(self, description: Description) -> PackCheckpoint | None:
        """Return the last checkpoint of a run with this description, or None; print why another run is dropped."""
        *lines, cut_short = self._file.read().split(b"\n")
        if cut_short:  # by a kill or a full disk; what is added next must not stand behind it on one line
            self._file.truncate(self._file.tell() - len(cut_short))
        if not lines:
            return None
        try:
            before: Description = dict(json.loads(lines[0]))
            checkpoints = [PackCheckpoint(*json.loads(line)) for line in lines[1:]]
        except (ValueError, TypeError):
            logger.warning("the journal of an interrupted run is damaged: starting from the beginning")
            return None
        different = [key for key in {**description, **before} if before.get(key) != description.get(key)]
        if different:
            logger.warning(
                f"starting from the beginning: changed since the interrupted run: {', '.join(sorted(different))}"
            )
            _remove_partial(self.path.parent, before)
        elif checkpoints and _are_there(self.path.parent, description, checkpoints[-1]):
            bad = [one for checkpoint in checkpoints for one in checkpoint.bad]
            self._num_bad = len(bad)
            return checkpoints[-1]._replace(bad=bad)
        return None

    def start(self, description: Description) -> None:
        """Drop all earlier lines, and write the description of a new run."""
        self._file.seek(0)
        self._file.truncate()
        self._num_bad = 0
        self._append(description)

    def add(self, checkpoint: PackCheckpoint) -> None:
        """Append a checkpoint; all that it says must be on the disk."""
        new, self._num_bad = checkpoint.bad[self._num_bad :], len(checkpoint.bad)
        self._append(checkpoint._replace(bad=new))

    def remove(self) -> None:
        """Remove the file: nothing is left to resume."""
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file, and release the lock."""
        self._file.close()

    def _append(self, line: Any) -> None:
        try:
            self._file.seek(0, os.SEEK_END)
            left = memoryview(json.dumps(line).encode() + b"\n")
            while left:  # where the disk becomes full, a part may be written without an error
                left = left[self._file.write(left) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            raise durable.cannot_write(self.path, error) from None


def _are_there(folder: Path, description: Description, checkpoint: PackCheckpoint) -> bool:
    for name, (written, _) in zip(description["files"], checkpoint.files):
        path = folder / name
        for file, num_bytes in ((path, written[1]), (index_path(path), written[2])):
            if not aside(file).is_file() or aside(file).stat().st_size < num_bytes:
                logger.warning(
                    f"starting from the beginning: the interrupted run's {aside(file)} is no longer whole"
                )
                return False
    return True


def _remove_partial(folder: Path, description: Description) -> None:
    for name in description.get("files", ()):
        for path in (folder / name, index_path(folder / name)):
            aside(path).unlink(missing_ok=True)
