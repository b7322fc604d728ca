"""What a loader's worker process does: take pieces from a socket, fill them in shared memory, and say so.

`worker_processes.py` starts it, and kills it when it is not needed any more.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import traceback
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from mxtrain.core.errors import Stop, mark, of_user
from mxtrain.data.assembly import Array, Piece, SampleAssembly
from mxtrain.data.worker_pool import Shape

PR_SET_PDEATHSIG = 1


def serve(parent: int, connection: int, memory: int) -> None:
    """Work until the parent closes its end, or dies."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before it could be watched
        return
    asked = Connection(connection)
    mapped: dict[tuple[int, int], Array] = {}
    try:
        fill = asked.recv()
        while True:
            piece, offset, num_bytes, shape = asked.recv()
            if (offset, num_bytes) not in mapped:
                block = mmap.mmap(memory, num_bytes, offset=offset)
                mapped[offset, num_bytes] = np.frombuffer(block, np.uint8)
            asked.send(_answer(fill, piece, shape, mapped[offset, num_bytes]))
    except (EOFError, ConnectionError):
        return


def _answer(fill: SampleAssembly, piece: Piece, shape: Shape, memory: Array) -> Any:
    """The records that had to be replaced, or what went wrong, as an exception that can be sent."""
    try:
        return fill(piece, *shape.arrays(memory))
    except Stop as stop:
        return stop
    except Exception as error:
        sent = RuntimeError(f"in a loader worker:\n{traceback.format_exc()}")
        mark(sent, of_user(error))
        return sent
