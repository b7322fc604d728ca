"""The workers of a run as its code sees them, and a run without others.

Owns the face that `watch.Member` and `Alone` share. Nothing here knows how workers reach each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Sequence

from mxtrain.config.names import is_async

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Doubles = npt.NDArray[np.float64]


class WorkerGroup(Protocol):
    """This worker is `number` of `count`; of those that share its disk the one that writes to it, if it `writes`."""

    @property
    def rank(self) -> int: ...

    @property
    def world_size(self) -> int: ...

    @property
    def is_writer(self) -> bool: ...

    @property
    def local_workers(self) -> int:
        """How many share this host's cores."""
        ...

    @property
    def job(self) -> str:
        """By which the job knows its own checkpoints again."""
        ...

    def sum(self, values: Any) -> Doubles:
        """Numbers added up over all workers, float64, the same to the bit everywhere; every worker must call it."""
        ...

    def report_progress(self, phase: str, step: int) -> None:
        """This worker is getting on."""
        ...

    def heartbeat(self) -> None:
        """It is, within what it told last."""
        ...


class SingleWorker:
    """One worker."""

    rank, world_size, is_writer, local_workers, job = 0, 1, True, 1, ""

    def sum(self, values: Any) -> Doubles:
        import numpy as np  # --help does without

        return np.asarray(values, np.float64)

    def report_progress(self, phase: str, step: int) -> None:
        """Nobody listens."""

    def heartbeat(self) -> None:
        """Nobody listens."""


SINGLE_WORKER = SingleWorker()


def sum_arrays(group: WorkerGroup, arrays: Sequence[Any]) -> list[Doubles]:
    """Each added up over all workers, in one message; the shapes are everywhere the same."""
    import numpy as np

    flat = np.concatenate([np.ravel(array) for array in arrays])
    ends = np.cumsum([array.size for array in arrays])[:-1]
    parts = np.split(group.sum(flat), ends)
    return [part.reshape(array.shape) for part, array in zip(parts, arrays)]


def gather(group: WorkerGroup, mine: Sequence[float]) -> Doubles:
    """The numbers of all workers, one's after the other's; each may have as many as it likes."""
    import numpy as np

    counts = np.zeros(group.world_size)
    counts[group.rank] = len(mine)
    ends = np.cumsum(group.sum(counts)).astype(int)
    numbers = np.zeros(ends[-1])
    numbers[ends[group.rank] - len(mine) : ends[group.rank]] = mine
    return group.sum(numbers) if len(numbers) else numbers


def step_group(group: WorkerGroup, kvstore: str) -> WorkerGroup:
    """Return the workers that make each step together: all of `group`, or this one alone if the store is async."""
    return SINGLE_WORKER if is_async(kvstore) else group
