"""The seam between a step and whoever owns the rows of tables: this process, or servers.

Owns the interface alone. A step pulls the rows of ids that a micro-batch uses, pushes what the micro-batch made of
their gradients, and learns from `finish` the squares that its norm is made of. A `table` is a position among the run's
tables. Ids are int64, rows float32.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, NamedTuple, Protocol

from mxtrain.data.fields import Array
from mxtrain.optim.update import Update


class RowGradients(NamedTuple):
    """The gradients of one use of a table in a micro-batch. Owners add those of a row in the order of uses."""

    position: int  # of the micro-batch in its step
    place: int  # of the use among those of the micro-batch
    ids: Array
    gradients: Array  # a row for each id
    are_distinct: bool = False  # each id is known to be there once


class RowPull(Protocol):
    """Rows on their way."""

    @property
    def arrived(self) -> float | None:
        """The time when the rows were here, by the monotonic clock; None before."""
        ...

    def wait(self) -> Array:
        """Return the rows, in the order of their ids; raises what kept them from coming."""
        ...


class TableOwners(Protocol):
    """The owners of a run's tables. All workers make the same calls but those of rows."""

    def pull(self, table: int, ids: Array) -> RowPull:
        """Ask for rows as the last update has left them, and wait for them before the next one.

        A row that is not there yet is as it will begin.
        """
        ...

    def prefetch(self, table: int, ids: Array) -> RowPull:
        """Ask for rows as the update of the step under way will leave them, before `finish`; wait for them after it."""
        ...

    def push(self, table: int, gradients: RowGradients) -> None:
        """Hand over the gradients of a use in the step under way."""
        ...

    def finish(self) -> int | None:
        """Wait for the gradients of all workers; return the squares of their sums, added up by `core/exact_sum.py`.

        None where one is not finite.
        """
        ...

    def apply(self, update: Update) -> None:
        """Move the rows by the sums of the step; does not wait for it, later pulls do."""
        ...

    def drop(self) -> None:
        """Forget the sums of the step."""
        ...

    def num_rows(self, table: int) -> int:
        """Return how many rows of a table there are."""
        ...

    def begin(self, folder: Path, previous: Path | None) -> None:
        """Begin to write all rows as they are into a folder, while they go on changing; one worker calls it.

        `previous` is the last checkpoint, whose files may be linked.
        """
        ...

    def write(self, report_progress: Callable[[], None]) -> dict[str, Any]:
        """Wait until what was begun is written, and return the sums of its files by their names."""
        ...

    def read(self, folder: Path) -> None:
        """Go on with the rows in the files of a folder, whoever owned them then; one worker calls it."""
        ...
