"""The moving average of the weights: `--ema`.

Owns the averages (float32, on the first device) and lending them to the net. An average starts as the weights and
moves after every applied step by `decay_after`; running statistics are averaged with the weights that they belong to.
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterator

from mxtrain.models import running_statistics, weights
from mxtrain.runtime import mx


class Ema:
    """Averages under the names that `weights` keeps the net's parameters under."""

    def __init__(self, net: Any, decay: float):
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

    def update(self) -> None:
        """Take in the weights as they are now."""
        self.num_updates += 1
        share = 1.0 - decay_after(self.decay, self.num_updates)
        for name, parameter in self.moving.items():
            average = self.averages[name]
            # SGD's kernel as average -= share * (average - weight): one pass over memory instead of three.
            weight = parameter.list_data()[0]
            mx.nd.sgd_update(average, weight, lr=share, wd=1.0, rescale_grad=-1.0, out=average)

    def restore(self, path: str, num_updates: int) -> None:
        """Go on from saved averages."""
        saved = mx.nd.load(path)
        for name, average in self.averages.items():
            average[:] = saved[name].as_in_context(average.context)
        self.num_updates = num_updates

    @contextlib.contextmanager
    def in_net(self) -> Iterator[None]:
        """The net computes with the averages inside this block, and with its weights after it."""
        named = weights.named_parameters(self.net)
        kept = {name: parameter.list_data()[0].copy() for name, parameter in named.items()}
        try:
            _set(named, self.averages)
            yield
        finally:
            _set(named, kept)


def decay_after(decay: float, num_updates: int) -> float:
    """Less than `decay` at first, so that the random weights of the beginning are soon forgotten."""
    return min(decay, (1.0 + num_updates) / (10.0 + num_updates))


def with_averages(ema: Ema | None) -> contextlib.AbstractContextManager[None]:
    """The block that evaluates: with the averages where the run keeps some."""
    return contextlib.nullcontext() if ema is None else ema.in_net()


def _set(named: dict[str, Any], arrays: dict[str, Any]) -> None:
    for name, parameter in named.items():
        parameter.set_data(arrays[name])
    mx.nd.waitall()
