"""The common part of trainers that update on the workers, `local_trainer.py` and `stages_trainer.py`.

All workers have the same sums of gradients, and make the same updates of them.
"""

from __future__ import annotations

from typing import Sequence

from mxtrain.data.fields import Array
from mxtrain.kvstore.worker_sums import WorkerSums
from mxtrain.optim import precision
from mxtrain.optim.sums import squares
from mxtrain.runtime.types import NDArray


class UpdatesOnWorkers:
    """A trainer whose gradient arrays hold the sums over workers, by its `sums`; without them there are no others."""

    is_remote = False
    staleness: int | None = None  # all workers wait for each other, so no gradient is of older weights
    sums: WorkerSums | None
    _maxima: Array | None = None  # of the blocks of the step's sums, found beside their norm

    def gradient_norm(self, gradients: Sequence[NDArray]) -> float:
        """Return the norm of the sums, which are the same on all workers."""
        found = squares.measure(gradients) if self.sums is None else self.sums.measure(gradients)
        self._maxima = found.maxima
        return precision.norm_of(found.squares)

    def block_maxima(self) -> Array | None:
        return self._maxima

    def show_sums(self) -> bool:
        """Do nothing: they do."""
        return True

    def skip_update(self) -> None:
        if self.sums is not None:
            self.sums.restore_residuals()

    def synchronize(self) -> None:
        """Do nothing: all workers have made the same updates."""

    def drop_residuals(self) -> None:
        if self.sums is not None:
            self.sums.drop_residuals()
