"""The workers of a run as training code sees them, and a run of one worker.

Owns the interface that `agent.Agent` and `SingleWorker` implement, and collectives made of its `sum`. Does not own how
workers reach each other.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Sequence

from mxtrain.config.components.stores import is_async

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Doubles = npt.NDArray[np.float64]


class Peer(NamedTuple):
    """A worker as others connect to it where there are no servers: the numbers of its host and its unix socket."""

    host: int  # equal for workers that share sockets and memory
    number: int


class WorkerGroup(Protocol):
    """This worker among all workers of the run."""

    @property
    def rank(self) -> int:
        """This worker's index, from 0 to world_size - 1."""
        ...

    @property
    def world_size(self) -> int:
        """Number of workers."""
        ...

    @property
    def is_writer(self) -> bool:
        """True for one of the workers that share a disk: only this one writes the run folder there."""
        ...

    @property
    def is_first_on_host(self) -> bool:
        """True for one of the workers that share a host: only this one looks at the host itself."""
        ...

    @property
    def local_workers(self) -> int:
        """Number of workers that share this host's cores."""
        ...

    @property
    def local_servers(self) -> int:
        """Number of servers that share this host's memory."""
        ...

    @property
    def job(self) -> str:
        """Identifier by which the job recognizes its own checkpoints."""
        ...

    @property
    def hosts(self) -> Sequence[str]:
        """Names of the hosts of all workers, in the order of their ranks."""
        ...

    @property
    def peers(self) -> Sequence[Peer]:
        """All workers, in the order of their ranks, where they sum among themselves; empty in other jobs."""
        ...

    @property
    def owners(self) -> Sequence[int]:
        """Numbers of the sockets of the servers that own the weights, by index; empty where workers hold them."""
        ...

    @property
    def memory_sockets(self) -> Sequence[int]:
        """Numbers of the sockets at which servers take in this worker's memory; empty where they are elsewhere."""
        ...

    @property
    def remarks(self) -> Sequence[str]:
        """Sentences for the log, on what makes the workers' last bits differ."""
        ...

    def sum(self, values: npt.ArrayLike) -> Doubles:
        """Return the sum of all workers' `values`, an array of one shape everywhere, in float64.

        A collective: every worker must call it. The result has the same bits on all of them.
        """
        ...

    def report_progress(self, phase: str | None = None, step: int | None = None) -> None:
        """Report that this worker makes progress, or else it counts as stalled after --stall-timeout.

        `phase` and `step` tell where it is, for messages; None keeps what was reported last.
        """
        ...

    def send_note(self, note: dict[str, Any]) -> None:
        """Pass a note, small and of what JSON can hold, on to the other workers; never waits.

        It goes with a heartbeat. One that comes before that takes its place.
        """

    def heard(self) -> list[dict[str, Any]]:
        """Return the notes of other workers that have come since the last call."""
        ...


class SingleWorker(WorkerGroup):
    """The only worker of a run."""

    rank, world_size, is_writer, is_first_on_host, local_workers, job, remarks = 0, 1, True, True, 1, "", ()
    local_servers = 0
    hosts = (os.uname().nodename,)
    peers: Sequence[Peer] = ()
    owners: Sequence[int] = ()
    memory_sockets: Sequence[int] = ()

    def sum(self, values: npt.ArrayLike) -> Doubles:
        import numpy as np  # not needed by --help

        return np.asarray(values, np.float64)

    def report_progress(self, phase: str | None = None, step: int | None = None) -> None:
        """Do nothing: nobody watches."""

    def send_note(self, note: dict[str, Any]) -> None:
        """Do nothing: nobody hears."""

    def heard(self) -> list[dict[str, Any]]:
        return []


SINGLE_WORKER = SingleWorker()


def sum_arrays(group: WorkerGroup, arrays: Sequence[npt.NDArray[Any]]) -> list[Doubles]:
    """Return the sum over all workers of each array, in one message; a collective like `sum`."""
    import numpy as np

    flat = np.concatenate([np.ravel(array) for array in arrays])
    ends = np.cumsum([array.size for array in arrays])[:-1]
    parts = np.split(group.sum(flat), ends)
    return [part.reshape(array.shape) for part, array in zip(parts, arrays)]


def in_order(rows: npt.ArrayLike) -> Doubles:
    """Return the sum of `rows`, added one after the other in float64; NumPy's own `sum` may add them by halves.

    Rows that one worker each has filled, and `sum` has brought together, give the same bits whoever filled them.
    """
    import numpy as np

    total: Doubles = np.add.accumulate(rows, axis=0, dtype=np.float64)[-1]
    return total


def gather(group: WorkerGroup, values: Sequence[float]) -> Doubles:
    """Return the values of all workers, concatenated in the order of ranks; each may give any number of them."""
    import numpy as np

    counts = np.zeros(group.world_size)
    counts[group.rank] = len(values)
    ends = np.cumsum(group.sum(counts)).astype(int)
    gathered = np.zeros(ends[-1])
    gathered[ends[group.rank] - len(values) : ends[group.rank]] = values
    return group.sum(gathered) if len(gathered) else gathered


def gather_in_turn(group: WorkerGroup, values: Sequence[Doubles], count: int) -> list[Doubles]:
    """Return all workers' `count` vectors, of any lengths; a worker has made every world_size-th, from its rank on."""
    import numpy as np

    sizes = np.zeros(count)
    sizes[group.rank :: group.world_size] = [len(vector) for vector in values]
    ends = np.cumsum(group.sum(sizes)).astype(int)
    parts = np.split(np.zeros(ends[-1]), ends[:-1])  # views of one array
    for part, vector in zip(parts[group.rank :: group.world_size], values):
        part[:] = vector
    return np.split(group.sum(np.concatenate(parts)), ends[:-1]) if ends[-1] else parts


def step_group(group: WorkerGroup, kvstore: str) -> WorkerGroup:
    """Return the workers that make each step together: all of `group`, or this one alone if the store is async."""
    return SINGLE_WORKER if is_async(kvstore) else group
