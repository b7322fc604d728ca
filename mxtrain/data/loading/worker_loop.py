"""The loop of a loader's worker process: receive a task, assemble its samples in shared memory, answer.

Does not start or end the process: that is `worker_processes.py`.
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

from mxtrain.core.errors import Stop, attach_user_message, user_message
from mxtrain.data import fields
from mxtrain.data.fields import Memory
from mxtrain.data.loading.assembly import BatchSlice, SampleAssembly

PR_SET_PDEATHSIG = 1


def worker_loop(parent: int, connection: int, memory: int) -> None:
    """Do tasks until the parent closes its end of the connection, or dies.

    `parent` is its process id; `connection` and `memory` are inherited file descriptors, of the socket to the parent
    and of the memory in which all batches lie. The first message is the SampleAssembly, each further one a task.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the kernel was asked to watch it
        return
    channel = Connection(connection)
    mapped: dict[tuple[int, int], Memory] = {}
    try:
        assembly = channel.recv()
        while True:
            wanted, offset, num_bytes, num_samples = channel.recv()
            if (offset, num_bytes) not in mapped:
                block = mmap.mmap(memory, num_bytes, offset=offset)
                mapped[offset, num_bytes] = np.frombuffer(block, np.uint8)
            channel.send(_answer(assembly, wanted, num_samples, mapped[offset, num_bytes]))
    except (EOFError, ConnectionError):
        return


def _answer(assembly: SampleAssembly, wanted: BatchSlice, num_samples: int, memory: Memory) -> Any:
    """Return the records that had to be replaced, or an exception that can be pickled."""
    try:
        return assembly(wanted, fields.rows(assembly.fields, num_samples, memory))
    except Stop as stop:
        return stop
    except Exception as error:
        sent = RuntimeError(f"in a loader worker:\n{traceback.format_exc()}")
        attach_user_message(sent, user_message(error))
        return sent
