"""Locks on a run's folder: one run writes into it, and one launcher has a job in it.

Linux ends them with the process, however it ends.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from pathlib import Path

from mxtrain.core.errors import UsageError

ENDING_SECONDS = 3.0  # in which the processes of a job whose launcher was killed end
RETRY_SECONDS = 0.05


def lock(out: Path, owner: str = "mxtrain.fit") -> int:
    """Lock the folder and return the descriptor that holds the lock; UsageError where another `owner` holds it."""
    handle = os.open(out / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise _taken(out, owner) from None
    return handle


def refuse_where_locked(out: Path) -> None:
    """Raise UsageError where a run has locked the folder and does not end; there need be no such folder."""
    deadline = time.monotonic() + ENDING_SECONDS
    while (out / ".lock").exists():
        try:
            os.close(lock(out))
            return
        except UsageError:
            if time.monotonic() > deadline:
                raise
        time.sleep(RETRY_SECONDS)


def lock_for_job(out: Path, descriptor: int, is_whole: bool) -> None:
    """Lock the open folder for a launcher, as long as the descriptor is open; UsageError where another job has it.

    Launchers that each start a part of a job, where `is_whole` is False, share it. A disk that knows no such locks
    (NFS locks no folders) refuses nobody.
    """
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_EX if is_whole else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno == errno.EWOULDBLOCK:
            raise _taken(out, "mxtrain.fit") from None


def _taken(out: Path, owner: str) -> UsageError:
    return UsageError(f"--out {out}: another {owner} is running there; wait for it or give another")
