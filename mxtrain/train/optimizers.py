"""From `--optimizer` to MXNet's optimizer.

Names and numbers are `optimizer_names.py`'s, what MXNet lacks `own_optimizers.py`'s. The rate of each step comes from
`schedules.py` through the trainer.
"""

from __future__ import annotations

import inspect
from typing import Any

from mxtrain import names
from mxtrain.config import Optim
from mxtrain.errors import UsageError
from mxtrain.runtime import mx
from mxtrain.train import own_optimizers
from mxtrain.train.optimizer_names import OPTIMIZERS, resolve

FACTORIES = {
    "sgd": mx.optimizer.SGD,
    "nag": own_optimizers.Nag,
    "signum": own_optimizers.Signum,
    "adam": mx.optimizer.Adam,
    "adamw": own_optimizers.AdamW,
    "nadam": own_optimizers.NAdam,
    "adamax": own_optimizers.AdaMax,
    "adadelta": own_optimizers.AdaDelta,
    "adagrad": lambda epsilon, **others: mx.optimizer.AdaGrad(eps=epsilon, **others),
    "rmsprop": mx.optimizer.RMSProp,
    "ftml": mx.optimizer.FTML,
    "ftrl": mx.optimizer.Ftrl,
    "lamb": own_optimizers.Lamb,
    "lars": own_optimizers.Lars,
}


def build(optim: Optim) -> Any:
    """The optimizer that `optim` names; one of the user's own gets `momentum` or `beta1` where it takes that."""
    name, numbers = resolve(optim)
    if name in OPTIMIZERS:
        factory = FACTORIES[name]
    else:
        factory = names.load_path("--optimizer", name)
        accepted = inspect.signature(factory.__init__ if inspect.isclass(factory) else factory).parameters
        numbers = {key: optim.momentum for key in ("momentum", "beta1") if key in accepted}
    optimizer = factory(learning_rate=optim.lr, wd=optim.weight_decay, **numbers)
    if not isinstance(optimizer, mx.optimizer.Optimizer):
        raise UsageError(f"--optimizer {name}: returned a {type(optimizer).__name__}, not an mxnet Optimizer")
    return optimizer
