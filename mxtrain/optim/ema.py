"""Exponential moving average of the weights: `--ema`.

Owns the averages (float32, on the first device) and putting them into the net for an evaluation. An average starts as
the weights and moves after every applied step; running statistics are averaged with the weights they belong to.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Iterator, Mapping

from mxtrain.core.params_file import Arrays
from mxtrain.models.parameters import running_statistics, weights
from mxtrain.optim.companion import Companion
from mxtrain.runtime import mx
from mxtrain.runtime.types import Block, NDArray, Parameter


class Ema(Companion):
    """The averages, under the names of `weights.named_parameters`."""

    def __init__(self, net: Block, decay: float):
        self.net, self.decay, self.num_updates = net, decay, 0
        self.averages = {
            name: parameter.list_data()[0].copy() for name, parameter in weights.named_parameters(net).items()
        }
        running = {parameter.name for parameter in running_statistics.parameters(net)}
        self.moving = {
            name: parameter
            for name, parameter in weights.named_parameters(net).items()
            if parameter.grad_req != "null" or parameter.name in running
        }

    def after_update(self) -> None:
        """Move the averages towards the current weights."""
        self.num_updates += 1
        rate = 1.0 - decay_after(self.decay, self.num_updates)
        for name, parameter in self.moving.items():
            average = self.averages[name]
            # SGD's kernel as average -= rate * (average - weight): one pass over memory instead of three.
            weight = parameter.list_data()[0]
            mx.nd.sgd_update(average, weight, lr=rate, wd=1.0, rescale_grad=-1.0, out=average)

    def arrays(self) -> Arrays:
        """Return copies of the averages."""
        return {name: average.asnumpy() for name, average in self.averages.items()}

    def restore(self, path: Path, saved: Mapping[str, Any]) -> None:
        """Go on from the averages in `path`."""
        kept = mx.nd.load(str(path))
        for name, average in self.averages.items():
            average[:] = kept[name].as_in_context(average.context)
        self.num_updates = saved["step"] - saved["skipped_steps"]

    @contextlib.contextmanager
    def for_evaluation(self) -> Iterator[None]:
        """Let the net compute with the averages inside this block, and with its weights after it."""
        named = weights.named_parameters(self.net)
        trained = {name: parameter.list_data()[0].copy() for name, parameter in named.items()}
        try:
            _set(named, self.averages)
            yield
        finally:
            _set(named, trained)


def decay_after(decay: float, num_updates: int) -> float:
    """Return the decay of an update: lower than `decay` at first, to forget the random initial weights soon."""
    return min(decay, (1.0 + num_updates) / (10.0 + num_updates))


def _set(named: dict[str, Parameter], arrays: dict[str, NDArray]) -> None:
    for name, parameter in named.items():
        weights.put(parameter, arrays[name])
    mx.nd.waitall()
