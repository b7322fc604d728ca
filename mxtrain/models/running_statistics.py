"""BatchNorm's running statistics under micro-batches.

Owns their movement: MXNet moves them in each backward pass, on the device that runs it, so they would depend on who
computes what. Here they move once a step, by the mean over all its micro-batches, are equal on every device afterwards,
and stay as they are if the step is not applied. Does not own the sum over workers (`kvstore`).
"""

from __future__ import annotations

import dataclasses
from typing import Any, Sequence

import numpy as np

from mxtrain.cluster.worker_group import WorkerGroup, sum_arrays
from mxtrain.models.weights import layers
from mxtrain.runtime import mx

NAME_ENDINGS = ("running_mean", "running_var", "moving_mean", "moving_var")


def parameters(net: Any) -> list[Any]:
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


def need_input_grad(net: Any) -> bool:
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


def average(net: Any, counter: SampleCounter, group: WorkerGroup) -> None:
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
    """The running statistics of one step: each micro-batch starts from the same ones, and `apply` takes the mean.

    `num_micro_batches` are those of the whole step, over its `num_workers` workers.
    """

    def __init__(
        self,
        net: Any,
        contexts: Sequence[Any],
        counter: SampleCounter,
        num_micro_batches: int,
        num_workers: int,
    ):
        self.contexts, self.counter = contexts, counter
        self.parameters = parameters(net)
        # One micro-batch on one device leaves its own mean there.
        self.is_single_batch = num_micro_batches == 1 and len(contexts) == 1 and num_workers == 1
        self.start = {c: [p.data(c).copy() for p in self.parameters] for c in self.contexts}
        # The engine does not see the writes of a static graph, so no copy may be pending when one runs.
        mx.nd.waitall()
        self.sums: dict[Any, list[Any]] = {}

    def before_batch(self, context: Any) -> None:
        """Reset the statistics on `context` to those of the step's start."""
        if context in self.sums:
            self._set(context, self.start[context])

    def after_batch(self, context: Any, num_samples: int) -> None:
        """Add the statistics that a micro-batch has left on `context`; its computation must have ended."""
        if self.is_single_batch:
            return
        weighted = [parameter.data(context) * num_samples for parameter in self.parameters]
        if context not in self.sums:
            self.sums[context] = weighted
        else:
            for total, value in zip(self.sums[context], weighted):
                total += value

    def local_sums(self) -> list[Any]:
        """Return the statistics summed over this worker's samples, on the first device, for the workers to sum."""
        if self.is_single_batch:
            return []
        first = self.contexts[0]
        if not self.sums:  # a worker without a share of this step
            return [mx.nd.zeros_like(start) for start in self.start[first]]
        of_devices = [[each.as_in_context(first) for each in sums] for sums in self.sums.values()]
        return [sum(parts[1:], parts[0]) for parts in zip(*of_devices)]

    def apply(self, sums: list[Any], num_samples: float) -> None:
        """Set the mean on every device, from the `sums` over all workers and the number of samples in them."""
        self.counter.num_samples += num_samples
        for parameter, total in zip(self.parameters, sums):
            mean = total / num_samples
            for context in self.contexts:
                parameter.data(context)[:] = mean.as_in_context(context)

    def restore(self) -> None:
        """Restore the statistics of the step's start: those of a step that is not applied may not be finite."""
        for context in self.contexts:
            self._set(context, self.start[context])

    def _set(self, context: Any, values: list[Any]) -> None:
        for parameter, value in zip(self.parameters, values):
            parameter.data(context)[:] = value
