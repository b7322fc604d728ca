"""BatchNorm's running statistics under micro-batches.

MXNet moves them once per backward pass, on the device that ran it, so they would depend on who computed what. Here
they move once a step, by the mean over all its micro-batches, and are equal on every device afterwards; a step that is
not applied leaves them alone.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from mxtrain.cluster.worker_group import WorkerGroup, sum_arrays
from mxtrain.models.weights import layers
from mxtrain.runtime import mx

RUNNING = ("running_mean", "running_var", "moving_mean", "moving_var")


def parameters(net: Any) -> list[Any]:
    """The running statistics among the net's parameters that training moves."""
    resting = {
        parameter.name
        for layer in layers(net, mx.gluon.nn.BatchNorm)
        if layer._kwargs.get("use_global_stats")
        for parameter in (layer.running_mean, layer.running_var)
    }
    running = [p for p in net.collect_params().values() if p.grad_req == "null" and p.name.endswith(RUNNING)]
    return [parameter for parameter in running if parameter.name not in resting]


def need_gradient_of_pictures(net: Any) -> bool:
    """Whether some of them rest on a CPU unless a gradient goes all the way back to the pictures.

    There a BatchNorm moves them in its backward pass, which is left out where neither its own gamma and beta nor
    anything before it trains.
    """
    driven = {
        parameter.name
        for layer in layers(net, mx.gluon.nn.BatchNorm)
        if (layer.gamma.grad_req, layer.beta.grad_req) != ("null", "null")
        for parameter in (layer.running_mean, layer.running_var)
    }
    return any(parameter.name not in driven for parameter in parameters(net))


@dataclasses.dataclass
class Seen:
    """The samples that have moved this worker's running statistics since all workers had the same ones."""

    num_samples: float = 0.0


def average(net: Any, seen: Seen, group: WorkerGroup) -> None:
    """Give everybody the mean over all workers, where each moved its own: by the samples that each has seen.

    A worker that had nothing to do since the last time still has the old ones, which count for nothing.
    """
    running = parameters(net)
    if not running:
        return
    values = [parameter.list_data()[0].asnumpy().astype(np.float64) for parameter in running]
    weighted = [np.array(seen.num_samples), *(value * seen.num_samples for value in values)]
    num_samples, *totals = sum_arrays(group, weighted)
    seen.num_samples = 0.0
    if num_samples:
        for parameter, total in zip(running, totals):
            parameter.set_data(mx.nd.array(total / num_samples))


class RunningMean:
    """Every micro-batch starts from the step's first statistics; `settle` takes the mean of where they all ended."""

    def __init__(self, parts: Any):
        self.contexts = parts.contexts
        self.parameters = parameters(parts.net)
        self.seen = parts.seen
        # One micro-batch on one device leaves its own mean.
        self.alone = (
            parts.num_micro_batches == 1 and len(parts.contexts) == 1 and parts.step_group.world_size == 1
        )
        self.start = {c: [p.data(c).copy() for p in self.parameters] for c in self.contexts}
        # The engine does not see the writes of a static graph, so no copy may still be under way.
        mx.nd.waitall()
        self.totals: dict[Any, list[Any]] = {}

    def before(self, context: Any) -> None:
        if context in self.totals:
            self._set(context, self.start[context])

    def after(self, context: Any, weight: int) -> None:
        if self.alone:
            return
        ended = [parameter.data(context) * weight for parameter in self.parameters]
        if context not in self.totals:
            self.totals[context] = ended
        else:
            for total, value in zip(self.totals[context], ended):
                total += value

    def total(self) -> list[Any]:
        """Over this worker's micro-batches, by their samples, on the first device: what the workers add up."""
        if self.alone:
            return []
        first = self.contexts[0]
        if not self.totals:  # a worker without a share of this step
            return [mx.nd.zeros_like(start) for start in self.start[first]]
        of_devices = [[each.as_in_context(first) for each in totals] for totals in self.totals.values()]
        return [sum(parts[1:], parts[0]) for parts in zip(*of_devices)]

    def settle(self, totals: list[Any], weight: float) -> None:
        """Take the mean for the step's statistics, of `totals` over all workers and the samples behind them."""
        self.seen.num_samples += weight
        for parameter, total in zip(self.parameters, totals):
            mean = total / weight
            for context in self.contexts:
                parameter.data(context)[:] = mean.as_in_context(context)

    def undo(self) -> None:
        """As if the step had not been: what it saw may not be finite."""
        for context in self.contexts:
            self._set(context, self.start[context])

    def _set(self, context: Any, values: list[Any]) -> None:
        for parameter, value in zip(self.parameters, values):
            parameter.data(context)[:] = value
