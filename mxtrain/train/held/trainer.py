"""The trainer of a net that holds none of its weights: they are with their owners.

What checkpoints keep of these is read and written by `stored.py`.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Sequence

from mxtrain.cluster.worker_group import WorkerGroup
from mxtrain.core.params_file import NamedArrays
from mxtrain.kvstore.owners.owner import GradientSum, Owners
from mxtrain.kvstore.trainers.owners_trainer import TrainerOfOwners
from mxtrain.runtime.types import NDArray, Optimizer, Parameter
from mxtrain.train.held import stored


class HeldTrainer(TrainerOfOwners):
    """The trainer of these parameters; a step gives their gradients to `push`, segment by segment.

    Of all parameters those that are in `held` are here, others are with their `owners` alone.
    """

    def __init__(
        self,
        parameters: Sequence[Parameter],
        held: Sequence[Parameter],
        optimizer: Optimizer,
        owners: Owners,
        group: WorkerGroup,
    ):
        super().__init__(parameters, owners, group)
        self.held, self.optimizer = list(held), optimizer
        self._sender = ThreadPoolExecutor(1, thread_name_prefix="gradients")
        self._sent: Future[None] | None = None

    def push(self, sums: Sequence[tuple[int, GradientSum]], kept: Sequence[Any] = ()) -> None:
        """Start to push sums of parameters, by index, once those before are on their way: two segments' are here.

        `kept` is whose memory they are in.
        """
        self._wait()
        self._sent = self._sender.submit(self._push, sums, kept)

    def push_now(self, index: int, gradient: GradientSum) -> None:
        """Push the sum of a parameter; its arrays may be written to again once this returns."""
        self._wait()
        self.owners.push(index, gradient)

    def _push(self, sums: Sequence[tuple[int, GradientSum]], kept: Sequence[Any]) -> None:
        for index, gradient in sums:
            self.owners.push(index, gradient)

    def _wait(self) -> None:
        sent, self._sent = self._sent, None
        if sent is not None:
            sent.result()

    def start_reduce(self) -> None:
        """Do nothing: gradients are pushed as they come."""

    def finish_reduce(self, statistics: Sequence[NDArray] = ()) -> None:
        """Wait until all gradients are pushed, and sum `statistics` over the workers."""
        self._wait()
        super().finish_reduce(statistics)

    def show_sums(self) -> bool:
        """Return False: no gradient arrays are here."""
        return False

    def optimizer_state(self) -> tuple[NamedArrays, dict[str, int]]:
        counts = dict(self.owners.update_counts())
        return stored.states(self.owners, self.optimizer, self.parameters, counts), counts

    def load_optimizer_state(self, path: str, counts: dict[str, int]) -> None:
        """Give the owners the arrays of a checkpoint, beside its weights, and the counts. A collective."""
        if self._group.rank == 0:
            stored.give_states(self.owners, Path(path), list(map(int, counts)))
        self.owners.set_update_counts(counts)
        self._group.sum(0)  # until all are there
