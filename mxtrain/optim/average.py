"""Stochastic weight averaging: `--average N` (Izmailov and others, 2018).

Owns the sums of the weights, their mean, and the running statistics that belong to it; when weights are taken is
`average_plan.py`'s. From the last point on the net has the mean, and no step moves it: the running statistics of its
norms become the mean over these steps, because those of the averaged nets are not the mean net's (docs/adr/0038).
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Mapping

import numpy as np

from mxtrain.core.params_file import Arrays
from mxtrain.models.parameters import running_statistics, weights
from mxtrain.optim.average_plan import AveragePlan
from mxtrain.optim.companion import Companion
from mxtrain.runtime import mx
from mxtrain.runtime.types import Block

logger = logging.getLogger(__name__)


class WeightAverage(Companion):
    """The sums of the weights taken so far, in float64, by the names of `weights.named_parameters`."""

    def __init__(self, net: Block, plan: AveragePlan):
        self.net, self.plan = net, plan
        self.taken: list[int] = []  # after which steps
        self.totals: Arrays = {}
        self._statistics: Arrays = {}  # as the last settling step has left them

    def holds_weights(self, step: int) -> bool:
        """Return whether the step that follows on `step` steps only settles running statistics."""
        return self.plan.is_settling(step)

    def after_step(self, step: int) -> None:
        """Do what is due when `step` steps are done."""
        last = self.plan.taken_after[-1:]
        if self.holds_weights(step - 1):
            self._settle(step - last[0])
        if step in self.plan.taken_after:
            self._take(step)
        if (step,) == last:
            self._begin_to_settle()

    def _take(self, step: int) -> None:
        self.taken.append(step)
        for name, values in weights.copy_of(self.net).items():
            self.totals[name] = self.totals.get(name, 0.0) + values.astype(np.float64)

    def _begin_to_settle(self) -> None:
        """Give the net the mean weights."""
        for name, parameter in weights.named_parameters(self.net).items():
            weights.put(parameter, weights.mean_of(self.totals[name], len(self.taken), parameter.dtype))
        mx.nd.waitall()
        logger.info(
            "step %d: from here on the net has the mean of the weights after steps %s",
            self.taken[-1],
            self.taken,
        )
        self.totals = {}
        self._statistics = self._running()

    def _settle(self, count: int) -> None:
        """Make the running statistics the mean over `count` steps, the last of which has moved them as always.

        A step moves them by a share of what they are from its own: 1 less the norm's momentum.
        """
        before, after = self._statistics, self._running()
        rates = self._rates()
        for parameter in running_statistics.parameters(self.net):
            name = parameter.name
            if name not in rates:  # of a user's own layer
                continue
            share = np.float32(1.0 / (rates[name] * count))
            values = mx.nd.array(before[name] + (after[name] - before[name]) * share)
            for context in parameter.list_ctx():
                parameter.data(context)[:] = values.as_in_context(context)
        mx.nd.waitall()
        self._statistics = self._running()

    def _running(self) -> Arrays:
        found = running_statistics.parameters(self.net)
        return {parameter.name: parameter.list_data()[0].asnumpy() for parameter in found}

    def _rates(self) -> Mapping[str, float]:
        return {
            parameter.name: 1.0 - float(layer._kwargs["momentum"])
            for layer in weights.layers(self.net, mx.gluon.nn.BatchNorm)
            for parameter in (layer.running_mean, layer.running_var)
        }

    def arrays(self) -> Arrays:
        """Return the sums, as long as there are some."""
        return dict(self.totals)

    def values(self) -> dict[str, Any]:
        """Return the steps after which weights were taken."""
        return {"averaged_steps": list(self.taken)}

    def restore(self, path: Path, saved: Mapping[str, Any]) -> None:
        """Go on with the sums in `path`, as far as the run, which may have become longer, still takes those weights."""
        points, taken, step = self.plan.taken_after, saved["averaged_steps"], saved["step"]
        if points == tuple(taken) and step >= points[-1]:
            self._statistics, self.taken = self._running(), taken
        elif taken and points[: len(taken)] == tuple(taken):
            self.totals = {name: array.asnumpy() for name, array in mx.nd.load(str(path)).items()}
            self.taken = taken
        elif step >= points[-1]:
            logger.warning(
                "--average: the run was of another length; too few steps are left to average any weights"
            )
            self.plan = AveragePlan(())
        elif taken:
            logger.warning(
                "--average: the run was of another length; weights after steps %s are left out", taken
            )
