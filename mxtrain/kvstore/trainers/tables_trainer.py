"""The trainer of a net with tables: another trainer for its weights, and the owners of rows beside it.

Owns that both move, or neither, by one norm. What weights and rows do then is theirs.
"""

from __future__ import annotations

import math
from typing import Protocol, Sequence

from mxtrain.core import exact_sum
from mxtrain.core.params_file import NamedArrays
from mxtrain.data.fields import Array
from mxtrain.kvstore.trainers.trainer import StepTrainer
from mxtrain.optim.sums.grid import Grid
from mxtrain.optim.update import Update
from mxtrain.runtime.types import NDArray, Parameter


class StepRows(Protocol):
    """The rows that a step moves; see `kvstore/tables/owner.py`."""

    def finish(self) -> int | None: ...

    def apply(self, update: Update) -> None: ...

    def drop(self) -> None: ...


class TablesTrainer:
    """The `StepTrainer` of `weights`, whose steps move the rows of `tables` too."""

    def __init__(self, weights: StepTrainer, tables: StepRows):
        self._weights, self._tables = weights, tables
        self._squares: int | None = None  # of the sums of a step's gradients for rows

    @property
    def parameters(self) -> Sequence[Parameter]:
        return self._weights.parameters

    @property
    def is_remote(self) -> bool:
        return self._weights.is_remote

    @property
    def staleness(self) -> int | None:
        return self._weights.staleness

    def start_reduce(self) -> None:
        self._weights.start_reduce()

    def finish_reduce(self, statistics: Sequence[NDArray] = ()) -> None:
        # Rows were pushed before weights, which are still on their way while owners add up rows.
        self._squares = self._tables.finish()
        self._weights.finish_reduce(statistics)

    def reduce_again(self, is_wide: Array, grid: Grid) -> None:
        self._weights.reduce_again(is_wide, grid)

    def gradient_norm(self, gradients: Sequence[NDArray]) -> float:
        if self._squares is None:
            return math.nan
        of_weights = self._weights.gradient_norm(gradients)
        return math.sqrt(of_weights * of_weights + exact_sum.to_float(self._squares))

    def block_maxima(self) -> Array | None:
        return self._weights.block_maxima()

    def show_sums(self) -> bool:
        return self._weights.show_sums()

    def apply(self, update: Update) -> None:
        self._weights.apply(update)
        self._tables.apply(update)

    def skip_update(self) -> None:
        self._weights.skip_update()
        self._tables.drop()

    def synchronize(self) -> None:
        self._weights.synchronize()

    def drop_residuals(self) -> None:
        self._weights.drop_residuals()

    def optimizer_state(self) -> tuple[NamedArrays, dict[str, int]]:
        return self._weights.optimizer_state()

    def load_optimizer_state(self, path: str, counts: dict[str, int]) -> None:
        self._weights.load_optimizer_state(path, counts)
