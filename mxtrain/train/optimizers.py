"""Optimizers by name, and which parameters decay.

Owns what MXNet 1.9.1 lacks (AdamW). The rate of each step comes from `schedules.py` through the trainer.
"""

from __future__ import annotations

import inspect
import math
from typing import Any, Iterable

from mxtrain import names
from mxtrain.config import Optim
from mxtrain.errors import UsageError
from mxtrain.runtime import mx

NO_DECAY = ("bias", "gamma", "beta")


def build(optim: Optim) -> Any:
    """The optimizer that `optim` names; `momentum` goes where that optimizer has one."""
    name = optim.optimizer
    known = {"adamw": AdamW, **mx.optimizer.Optimizer.opt_registry}
    factory = known[name] if name in names.OPTIMIZERS else names.load_path("--optimizer", name)
    accepted = inspect.signature(factory.__init__ if inspect.isclass(factory) else factory).parameters
    momentum = {key: optim.momentum for key in ("momentum", "beta1") if key in accepted}
    optimizer = factory(learning_rate=optim.lr, wd=optim.weight_decay, **momentum)
    if not isinstance(optimizer, mx.optimizer.Optimizer):
        raise UsageError(f"--optimizer {name}: returned a {type(optimizer).__name__}, not an mxnet Optimizer")
    return optimizer


def exempt_from_decay(parameters: Iterable[Any]) -> None:
    """Biases and norm parameters keep their size: decaying them helps nothing and moves the norms."""
    for parameter in parameters:
        if parameter.name.endswith(NO_DECAY):
            parameter.wd_mult = 0.0


class AdamW(mx.optimizer.Optimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter), the same arithmetic as torch.optim.AdamW."""

    def __init__(self, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8, **kwargs: Any):
        super().__init__(**kwargs)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon

    def create_state(self, index: int, weight: Any) -> Any:
        return mx.nd.zeros_like(weight), mx.nd.zeros_like(weight)

    def update(self, index: int, weight: Any, grad: Any, state: Any) -> None:
        self._update_count(index)
        count = self._index_update_count[index]
        rate, decay = self._get_lr(index), self._get_wd(index)
        first, second = 1.0 - self.beta1**count, math.sqrt(1.0 - self.beta2**count)
        mean, variance = state
        # MXNet's kernel corrects no bias: weight -= eta * (lr * mean / (sqrt(variance) + epsilon) + wd * weight).
        mx.nd.contrib.adamw_update(
            weight,
            grad,
            mean,
            variance,
            mx.nd.array([self.rescale_grad], ctx=weight.context),
            lr=second / first,
            eta=rate,
            wd=decay,
            beta1=self.beta1,
            beta2=self.beta2,
            epsilon=self.epsilon * second,
            clip_gradient=self.clip_gradient or -1.0,
            out=weight,
        )
