"""Ending a process together with its supervisor.

Owns the request to the kernel: it kills this process when the thread that started it ends, in whatever way, so
that nothing of a job is left behind. Does not own the starting of processes, which sets `SUPERVISOR_PID`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from mxtrain.core.errors import RESTART_ME

PR_SET_PDEATHSIG = 1
SUPERVISOR_PID = "MXTRAIN_SUPERVISOR_PID"


def die_with_parent() -> None:
    """Have the kernel kill this process when its supervisor ends; does nothing where there is no supervisor.

    Each process of a job calls it before anything else. It also unblocks the signals that the supervisor blocked.
    """
    supervisor = os.environ.pop(SUPERVISOR_PID, "")  # what this process starts is not the supervisor's child
    if not supervisor:
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.pthread_sigmask(
        signal.SIG_SETMASK, ()
    )  # `launch/attempt.py` starts processes with signals blocked
    if str(os.getppid()) != supervisor:  # it died before the request above
        print(f"mxtrain: the supervisor, process {supervisor}, has gone; leaving too", file=sys.stderr)
        raise SystemExit(RESTART_ME)
