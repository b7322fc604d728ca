"""The seam between a training step and the store behind it.

Owns the interface of a trainer and the choice of one. `local_trainer.py` updates on the workers, `stages_trainer.py`
too, where layers lie on several devices, `remote_trainer.py` on ps-lite's servers, `owners_trainer.py` where the
weights have owners; how a step uses a trainer is `train/step.py`'s.
"""

from __future__ import annotations

from typing import Protocol, Sequence

from mxtrain.cluster.worker_group import SINGLE_WORKER, WorkerGroup
from mxtrain.config.components import stores
from mxtrain.core.params_file import NamedArrays
from mxtrain.data.fields import Array
from mxtrain.kvstore.owners.owner import Owners
from mxtrain.kvstore.trainers import local_trainer
from mxtrain.kvstore.trainers.owners_trainer import OwnersTrainer
from mxtrain.kvstore.trainers.remote_trainer import RemoteTrainer
from mxtrain.kvstore.trainers.stages_trainer import StagesTrainer
from mxtrain.kvstore.worker_sums import open_sums
from mxtrain.models.nets import sparse_rows
from mxtrain.optim.sums.grid import Grid
from mxtrain.optim.update import Update
from mxtrain.runtime.types import NDArray, Optimizer, Parameter


class StepTrainer(Protocol):
    """An optimizer and the store through which gradients or weights travel, as a step uses them.

    A step calls `start_reduce`, `finish_reduce`, then `gradient_norm`, then either `apply` or `skip_update`. All
    workers of the step make the same calls in the same order.
    """

    @property
    def parameters(self) -> Sequence[Parameter]:
        """All parameters of the net, those that do not train too."""
        ...

    @property
    def is_remote(self) -> bool:
        """True where others may have moved the weights that `apply` fetches."""
        ...

    @property
    def staleness(self) -> int | None:
        """Updates by others since the weights of the last gradients were pulled; None where workers wait."""
        ...

    def start_reduce(self) -> None:
        """Start summing the gradients over devices and workers; does not wait for the backward pass to end."""
        ...

    def finish_reduce(self, statistics: Sequence[NDArray] = ()) -> None:
        """Replace `statistics`, and gradients that are summed on the workers, by their sums over the step's workers.

        `statistics` is empty, or one array of rows.
        """
        ...

    def reduce_again(self, is_wide: Array, grid: Grid) -> None:
        """Sum all digits of the blocks of `grid` that are wide on any worker; called after `finish_reduce`.

        `is_wide` says which are on this worker. A collective.
        """
        ...

    def gradient_norm(self, gradients: Sequence[NDArray]) -> float:
        """Return the L2 norm that all workers judge the step by; `gradients` are those of the first device."""
        ...

    def block_maxima(self) -> Array | None:
        """Return the largest absolute value in each block of the step's sums; None where gradient arrays hold these."""
        ...

    def show_sums(self) -> bool:
        """Have the first device's gradient arrays hold the sums of the step, if only here; False where none can."""
        ...

    def apply(self, update: Update) -> None:
        """Move the weights."""
        ...

    def skip_update(self) -> None:
        """Leave the step's gradients unused, and their compression residuals as before the step."""
        ...

    def synchronize(self) -> None:
        """Bring this worker to the same weights and optimizer state as all others; every worker calls it."""
        ...

    def drop_residuals(self) -> None:
        """Drop what gradient compression has held back for later steps, because no checkpoint holds it."""
        ...

    def optimizer_state(self) -> tuple[NamedArrays, dict[str, int]]:
        """Return the optimizer's arrays, and how often each parameter has been updated, as of `synchronize`."""
        ...

    def load_optimizer_state(self, path: str, counts: dict[str, int]) -> None:
        """Restore what `optimizer_state` returned: the arrays from the file `path`, and the update counts."""
        ...


def open_trainer(
    parameters: Sequence[Parameter],
    optimizer: Optimizer,
    kvstore: str,
    statistics: Sequence[Parameter] = (),
    threshold: float = 0.0,
    group: WorkerGroup = SINGLE_WORKER,
    num_rows: int = 1,
    is_rounded: bool = False,
    owners: Owners | None = None,
    grid: Grid | None = None,
) -> StepTrainer:
    """Return a trainer of `parameters` whose store is connected and whose replicas, on all workers, are equal.

    The stock gluon Trainer does both within its first step, after the first forward pass has used weights that the
    store then replaces; over several processes that races with the first gradients, which may be taken for weights.
    `statistics` are the parameters that workers sum besides the gradients, in `num_rows` rows; a `threshold` compresses
    the gradients; `is_rounded` they travel between hosts in bfloat16. Sums of gradients are on `grid`; where weights
    have `owners` these get them.
    """
    if owners is not None:
        return OwnersTrainer(parameters, owners, group, grid)
    if stores.is_async(kvstore) or (stores.has_servers(kvstore) and sparse_rows.trained_tables(parameters)):
        return RemoteTrainer(parameters, optimizer, kvstore, group)
    sums = None
    if stores.is_cluster(kvstore):
        sums = open_sums(kvstore, parameters, statistics, num_rows, threshold, group, is_rounded, grid)
    if len({each.list_data()[0].context for each in parameters}) > 1:
        return StagesTrainer(parameters, optimizer, sums)
    return local_trainer.open_local(parameters, optimizer, kvstore, sums)
