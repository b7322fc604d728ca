"""BatchNorm's running statistics under micro-batches.

Owns their movement: MXNet moves them in each backward pass, on the device that runs it, so they would depend on who
computes what. Here they move once a step, by the mean over all its micro-batches, have the same bits on every device
and for every mapping afterwards, and stay as they are if the step is not applied. Does not own the sum over workers
(`kvstore`).

Workers sum one array of rows. A step of few micro-batches has a row for each of them, zeros where another worker
computes, and everybody adds the sums in order. One of many has the limbs of their weighted sum, which are no more for
a thousand micro-batches than for seven, and which float32 adds exactly in any order (docs/adr/0020).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Iterator, Mapping, Sequence

import numpy as np

from mxtrain.cluster.worker_group import WorkerGroup, in_order, sum_arrays
from mxtrain.core import limbs
from mxtrain.data.fields import Array
from mxtrain.models.parameters.weights import layers
from mxtrain.runtime import mx
from mxtrain.runtime.memory import is_in_memory, memory, numbers
from mxtrain.runtime.types import Block, Device, NDArray, Parameter

NAME_ENDINGS = ("running_mean", "running_var", "moving_mean", "moving_var")
# Of limbs of 18 bits with their sign, which float32 adds exactly for 128 workers. The mean of numbers up to 2**40, more
# than 1e12, has all the digits of a float32 down to 2**-40, less than 1e-12, and fewer below.
LARGEST = 2.0**40
UNITS = (2.0**22, 2.0**4, 2.0**-14, 2.0**-32, 2.0**-50, 2.0**-68)


def parameters(net: Block) -> list[Parameter]:
    """Return the running statistics among the net's parameters that training moves."""
    fixed = {
        parameter.name
        for layer in layers(net, mx.gluon.nn.BatchNorm)
        if layer._kwargs.get("use_global_stats")
        for parameter in (layer.running_mean, layer.running_var)
    }
    running = [
        p for p in net.collect_params().values() if p.grad_req == "null" and p.name.endswith(NAME_ENDINGS)
    ]
    return [parameter for parameter in running if parameter.name not in fixed]


def num_elements(running: Sequence[Parameter]) -> int:
    """Return how many numbers these parameters hold together."""
    return sum(math.prod(parameter.shape) for parameter in running)


def num_rows(num_micro_batches: int) -> int:
    """Return how many rows of statistics the workers sum in a step: one for each micro-batch, or all limbs."""
    return min(num_micro_batches, len(UNITS))


def need_input_grad(net: Block) -> bool:
    """Return whether some of them move only if a gradient is computed for the net's input.

    On a CPU a BatchNorm moves them in its backward pass, which MXNet leaves out where neither its own gamma and beta
    nor anything before it trains.
    """
    moved_anyway = {
        parameter.name
        for layer in layers(net, mx.gluon.nn.BatchNorm)
        if (layer.gamma.grad_req, layer.beta.grad_req) != ("null", "null")
        for parameter in (layer.running_mean, layer.running_var)
    }
    return any(parameter.name not in moved_anyway for parameter in parameters(net))


@dataclasses.dataclass
class SampleCounter:
    """Samples that have moved this worker's running statistics since all workers had the same ones."""

    num_samples: float = 0.0


def average(net: Block, counter: SampleCounter, group: WorkerGroup) -> None:
    """Replace running statistics that each worker moved by itself by their mean over all workers of `group`.

    A worker counts by the samples it has had since the last call; one without any still has the old statistics, which
    do not count. Every worker calls it.
    """
    running = parameters(net)
    if not running:
        return
    values = [parameter.list_data()[0].asnumpy().astype(np.float64) for parameter in running]
    weighted = [np.array(counter.num_samples), *(value * counter.num_samples for value in values)]
    num_samples, *totals = sum_arrays(group, weighted)
    counter.num_samples = 0.0
    if num_samples:
        for parameter, total in zip(running, totals):
            parameter.set_data(mx.nd.array(total / num_samples))


class StepStatistics:
    """The running statistics of a step, `moving`: each micro-batch starts from the same, and `apply` takes the mean.

    There is a context for each copy of the net: where the layers of one lie on several, that of its answer.
    `num_micro_batches` and `batch_size` are those of a whole step, over its `num_workers` workers.
    """

    def __init__(
        self,
        moving: Sequence[Parameter],
        contexts: Sequence[Device],
        counter: SampleCounter,
        num_micro_batches: int,
        batch_size: int,
        num_workers: int,
    ):
        self.contexts, self.counter = list(contexts), counter
        self.parameters = moving
        # One micro-batch on one device leaves its own mean there.
        self.is_single_batch = num_micro_batches == 1 and len(contexts) == 1 and num_workers == 1
        self.start = {
            context: [numbers(each.list_data()[number]).copy() for each in self.parameters]
            for number, context in enumerate(contexts)
        }
        # The engine does not see the writes of a static graph, so no copy may be pending when one runs.
        mx.nd.waitall()
        self.moved: set[Any] = set()
        self.in_limbs = num_micro_batches > num_rows(num_micro_batches)
        self.rows = np.zeros((num_rows(num_micro_batches), num_elements(self.parameters)))
        # A power of two, so that weights of limbs are exact: with it those of a step are 1 or less together.
        self.weight_of_sample = 0.5 ** math.ceil(math.log2(batch_size))

    def before_batch(self, context: Device) -> None:
        """Reset the statistics on `context` to those of the step's start."""
        if context in self.moved:
            self._set(context, self.start[context])
        self.moved.add(context)

    def after_batch(self, context: Device, position: int, num_samples: int) -> None:
        """Note the statistics that a micro-batch has left on `context`; its computation must have ended."""
        if not self.is_single_batch:
            self._note_arrays([self._on(each, context) for each in self.parameters], position, num_samples)

    def lent(self, context: Device) -> dict[str, NDArray]:
        """Return arrays for one micro-batch alone to move, by the names of the parameters in whose place they are.

        None where there is but one. `take_back` them once it has been computed.
        """
        if self.is_single_batch:
            return {}
        places = [self._on(each, context).context for each in self.parameters]
        copies = [
            mx.nd.array(start, ctx=place, dtype=start.dtype)
            for start, place in zip(self.start[context], places)
        ]
        return {each.name: copy for each, copy in zip(self.parameters, copies)}

    def take_back(self, lent: Mapping[str, NDArray], position: int, num_samples: int) -> None:
        """Note the statistics that a micro-batch has left in what was lent to it."""
        if lent:
            self._note_arrays(list(lent.values()), position, num_samples)

    def _note_arrays(self, left: Sequence[NDArray], position: int, num_samples: int) -> None:
        row = np.empty(self.rows.shape[1], np.float32)
        for array, (_, part) in zip(left, self.split_row(row)):
            part[:] = numbers(array)
        self.note(row, position, num_samples)

    def note(self, left: Array, position: int, num_samples: int) -> None:
        """Note the statistics that a micro-batch has left, all in a row."""
        if self.in_limbs:
            add_limbs(self.rows, left, num_samples * self.weight_of_sample)
        else:
            self.rows[position] = left

    def local_rows(self) -> list[NDArray]:
        """Return a list of the array of this worker's rows, for the workers to sum.

        The list is empty where nothing is to be summed.
        """
        if self.is_single_batch or not self.parameters:
            return []
        if self.in_limbs:
            limbs.carry(self.rows, UNITS)
        return [mx.nd.array(self.rows)]

    def apply(self, rows: list[NDArray], num_samples: Array) -> None:
        """Set the mean on every device, from the `rows` of all workers and each micro-batch's number of samples."""
        self.counter.num_samples += float(num_samples.sum())
        for of_step in rows:
            sums = of_step.asnumpy()
            if self.in_limbs:
                mean = sum_of_limbs(sums) / (num_samples.sum() * self.weight_of_sample)
            else:
                mean = in_order(sums * num_samples[:, np.newaxis]) / num_samples.sum()
            for parameter, part in self.split_row(mean.astype(np.float32)):
                for data in parameter.list_data():
                    _put(part, data)

    def restore(self) -> None:
        """Restore the statistics of the step's start: those of a step that is not applied may not be finite."""
        for context in self.contexts:
            self._set(context, self.start[context])

    def _set(self, context: Device, values: list[Array]) -> None:
        for parameter, value in zip(self.parameters, values):
            _put(value, self._on(parameter, context))

    def _on(self, parameter: Parameter, context: Device) -> NDArray:
        """Return the parameter of the copy of the net that answers on this context."""
        return parameter.list_data()[self.contexts.index(context)]

    def split_row(self, row: Array) -> Iterator[tuple[Parameter, Array]]:
        """Yield each parameter with its part of a row, in the parameter's shape."""
        start = 0
        for parameter in self.parameters:
            stop = start + num_elements([parameter])
            yield parameter, row[start:stop].reshape(parameter.shape)
            start = stop


def _put(values: Array, array: NDArray) -> None:
    """Write an array's numbers, whose computation has ended, as has what reads them."""
    if is_in_memory(array):
        memory(array)[:] = values.ravel()
    else:
        array[:] = values


def add_limbs(sums: Array, values: Array, weight: float) -> None:
    """Add the limbs of weighted float32 `values` to `sums`; what is larger than LARGEST counts as infinite."""
    in_range = np.where(np.abs(values) > LARGEST, np.copysign(np.inf, values), values)
    weighted = in_range.astype(np.float64) * weight
    for total, limb in zip(sums, limbs.cut(weighted, UNITS)):
        total += limb


def sum_of_limbs(sums: Array) -> Array:
    """Return the number that sums of limbs stand for, the same bits for the same number."""
    carried = sums.astype(np.float64)
    limbs.carry(carried, UNITS)
    return in_order(carried[::-1])
