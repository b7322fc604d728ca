"""A process that dies with its supervisor.

The kernel kills it when the thread that started it ends, however that came about, so nothing of a job is left behind.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from mxtrain.core.errors import RESTART_ME

PR_SET_PDEATHSIG = 1
SUPERVISOR_PID = "MXTRAIN_SUPERVISOR_PID"


def tether() -> None:
    """Called first thing by each process of a job; without a supervisor it does nothing."""
    supervisor = os.environ.pop(SUPERVISOR_PID, "")  # what this process starts is not the supervisor's child
    if not supervisor:
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # `launch/attempt.py` holds signals back until here
    if str(os.getppid()) != supervisor:  # it died before it could be watched
        print(f"mxtrain: the supervisor, process {supervisor}, has gone; leaving too", file=sys.stderr)
        raise SystemExit(RESTART_ME)
