"""The trainer whose weights and optimizer are with their owners, `dist_sync` with `--update servers`.

Owns what a worker that computes with the whole net pushes to them and pulls from them. All sums are exact, whoever
computed what (docs/adr/0052). What owners do is `owners/`'s.
"""

from __future__ import annotations

import itertools
import math
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Sequence

import numpy as np

from mxtrain.cluster.worker_group import WorkerGroup, sum_arrays
from mxtrain.core.params_file import Arrays
from mxtrain.data.fields import Array
from mxtrain.kvstore.owners.owner import GradientSum, Owners, StepSums
from mxtrain.optim.sums.gradients import compute_gradient_in
from mxtrain.optim.sums.grid import NO_BLOCKS, Grid
from mxtrain.optim.update import Update
from mxtrain.runtime import mx
from mxtrain.runtime.memory import memory
from mxtrain.runtime.types import NDArray, Parameter


class TrainerOfOwners:
    """The common part of trainers of `parameters` whose weights and optimizer are with `owners`."""

    is_remote = False
    staleness: int | None = None  # all workers wait for each other, so no gradient is of older weights

    def __init__(self, parameters: Sequence[Parameter], owners: Owners, group: WorkerGroup):
        self.parameters, self.owners = list(parameters), owners
        self._group = group
        self._sums: StepSums | None = None

    def finish_reduce(self, statistics: Sequence[NDArray] = ()) -> None:
        """Sum `statistics` over the workers, and wait for the sums of all gradients; this worker's are pushed."""
        if statistics and self._group.world_size > 1:
            totals = sum_arrays(self._group, [array.asnumpy() for array in statistics])
            for array, total in zip(statistics, totals):
                array[:] = mx.nd.array(total)
        self._sums = self.owners.finish()

    def reduce_again(self, is_wide: Array, grid: Grid) -> None:
        """Do nothing: wide blocks were pushed with all their digits."""

    def gradient_norm(self, gradients: Sequence[NDArray] = ()) -> float:
        """Return the norm of the sums, whoever has `gradients`."""
        assert self._sums is not None, "called before finish_reduce"
        return math.sqrt(self._sums.squares.sum(dtype=np.float64))

    def block_maxima(self) -> Array | None:
        assert self._sums is not None, "called before finish_reduce"
        return self._sums.maxima

    def apply(self, update: Update) -> None:
        self.owners.apply(update)

    def skip_update(self) -> None:
        self.owners.drop()

    def synchronize(self) -> None:
        """Do nothing: all workers pull the same weights."""

    def drop_residuals(self) -> None:
        """Do nothing: gradients are not compressed."""


class OwnersTrainer(TrainerOfOwners):
    """A worker's trainer of `parameters`, of which `owners` have the weights.

    With a `grid` gradients are summed on it.
    """

    def __init__(
        self, parameters: Sequence[Parameter], owners: Owners, group: WorkerGroup, grid: Grid | None = None
    ):
        super().__init__(parameters, owners, group)
        self._grid = grid
        self._trained = [index for index, each in enumerate(parameters) if each.grad_req != "null"]
        self._sender = ThreadPoolExecutor(1, thread_name_prefix="gradients")
        self._sent: list[Future[None]] = []
        for index in self._trained:
            first = parameters[index].list_grad()[0]
            flat = mx.nd.zeros((first.size,), ctx=first.context)
            compute_gradient_in(flat.reshape(first.shape), parameters[index])
        self._put()

    def start_reduce(self) -> None:
        """Sum the gradients over this worker's devices, and push each as soon as it is there."""
        gradients = [self.parameters[index].list_grad() for index in self._trained]
        for first, *others in gradients:
            for other in others:
                first += other.as_in_context(first.context)
        places = range(len(gradients))
        # The backward pass comes to the last layers first.
        self._sent = [
            self._sender.submit(self._push, place, gradients[place][0]) for place in reversed(places)
        ]

    def _push(self, place: int, gradient: NDArray) -> None:
        values = memory(_on_host(gradient))  # from here on the totals are there too
        wide = NO_BLOCKS if self._grid is None else self._grid.wide_totals(place)
        self.owners.push(self._trained[place], GradientSum(values, *wide))

    def finish_reduce(self, statistics: Sequence[NDArray] = ()) -> None:
        """Wait until all gradients are pushed, and sum `statistics` over the workers."""
        for each in self._sent:
            each.result()
        super().finish_reduce(statistics)

    def show_sums(self) -> bool:
        gradients = [self.parameters[index].list_grad()[0] for index in self._trained]
        on_host = [_on_host(gradient) for gradient in gradients]
        self.owners.pull_sums(self._trained, list(map(memory, on_host))).wait()
        for gradient, array in zip(gradients, on_host):
            if array is not gradient:
                array.copyto(gradient)
        return True

    def apply(self, update: Update) -> None:
        super().apply(update)
        self._pull()

    def optimizer_state(self) -> tuple[Arrays, dict[str, int]]:
        counts = dict(self.owners.update_counts())
        states = {index: self.owners.read_state(index) for index in self._trained if str(index) in counts}
        arrays = {
            f"{index}.{place}": _shaped(array, self.parameters[index])
            for index, state in states.items()
            for place, array in enumerate(state)
        }
        return arrays, counts

    def load_optimizer_state(self, path: str, counts: dict[str, int]) -> None:
        """Give the owners this worker's weights, which are a checkpoint's, and the arrays and counts beside them."""
        self._put()
        if self._group.rank == 0:
            arrays = mx.nd.load(path)
            for index in map(int, counts):
                state = (arrays.get(f"{index}.{place}") for place in itertools.count())
                of_parameter = itertools.takewhile(lambda array: array is not None, state)
                self.owners.write_state(index, [array.asnumpy().ravel() for array in of_parameter])
        self.owners.set_update_counts(counts)

    def _put(self) -> None:
        """Give the owners worker 0's weights, and all workers these. A collective."""
        if self._group.rank == 0:
            for index, parameter in enumerate(self.parameters):
                self.owners.put(index, parameter.list_data()[0].asnumpy().ravel())
        self._group.sum(0)  # until all are there
        self._pull(range(len(self.parameters)))

    def _pull(self, indices: Sequence[int] | None = None) -> None:
        indices = self._trained if indices is None else indices
        mx.nd.waitall()  # until nothing computes with what is overwritten
        data = [self.parameters[index].list_data() for index in indices]
        on_host = [_on_host(first) for first, *_ in data]
        self.owners.pull(indices, list(map(memory, on_host))).wait()
        for (first, *others), array in zip(data, on_host):
            for other in others if array is first else (first, *others):
                array.copyto(other)


def _on_host(array: NDArray) -> NDArray:
    """Return an array of a CPU itself, of a GPU a copy."""
    return array if array.context.device_type.startswith("cpu") else array.copyto(mx.cpu())


def _shaped(array: Array, parameter: Parameter) -> Array:
    """Return an array of a parameter's state in its shape; one of another size stays as it is."""
    return array.reshape(parameter.shape) if array.size == math.prod(parameter.shape) else array
