"""The workers of a run as its code sees them, and a run without others.

Owns the face that `watch.Member` and `Alone` share. Nothing here knows how workers reach each other.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from mxtrain.data.recordio import Floats


class Group(Protocol):
    """This worker is `number` of `count`; of those that share its disk the one that writes to it, if it `writes`."""

    @property
    def number(self) -> int: ...

    @property
    def count(self) -> int: ...

    @property
    def writes(self) -> bool: ...

    @property
    def local_workers(self) -> int:
        """How many share this host's cores."""
        ...

    def sum(self, values: Any) -> Floats:
        """Numbers added up over all workers, float64, the same to the bit everywhere; every worker must call it."""
        ...

    def tell(self, phase: str, step: int) -> None:
        """This worker is getting on."""
        ...


class Alone:
    """One worker."""

    number, count, writes, local_workers = 0, 1, True, 1

    def sum(self, values: Any) -> Floats:
        return np.asarray(values, np.float64)

    def tell(self, phase: str, step: int) -> None:
        """Nobody listens."""


ALONE = Alone()
