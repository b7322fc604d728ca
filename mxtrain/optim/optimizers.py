"""MXNet optimizers for `--optimizer`.

Owns building them. Which there are is said in `config/components/optimizers.py`, those that MXNet lacks are
`extra_optimizers.py`'s; the learning rate of each step comes from `schedules.py` through the trainer.
"""

from __future__ import annotations

import copy
import inspect
from typing import Any

from mxtrain.config import Optim
from mxtrain.config.components import import_path
from mxtrain.config.components import optimizers as components
from mxtrain.config.program_objects import NO_OBJECTS, ProgramObjects
from mxtrain.core.errors import UsageError, in_user_code
from mxtrain.runtime import mx
from mxtrain.runtime.types import Optimizer


def build(optim: Optim, objects: ProgramObjects = NO_OBJECTS) -> Optimizer:
    """Return the optimizer that `optim` names; a user's own gets --momentum if it takes one."""
    name, hyperparameters = components.parse(optim)
    own = objects.get("--optimizer", name)
    if isinstance(own, mx.optimizer.Optimizer):
        return _copy_of(own)
    if name in components.OPTIMIZERS:
        factory = components.OPTIMIZERS[name].load()
    else:
        factory = import_path.load_callable("--optimizer", name, objects)
        hyperparameters = _momentum(factory, optim)
    with in_user_code(f"--optimizer {name}"):
        optimizer = factory(learning_rate=optim.lr, wd=optim.weight_decay, **hyperparameters)
    if not isinstance(optimizer, mx.optimizer.Optimizer):
        raise UsageError(f"--optimizer {name}: returned a {type(optimizer).__name__}, not an mxnet Optimizer")
    if optimizer.lr_scheduler is not None:
        raise UsageError(f"--optimizer {name}: has an lr_scheduler; leave it out, rates come from --schedule")
    return optimizer


def _copy_of(optimizer: Optimizer) -> Optimizer:
    """Return an optimizer as one that a Python program gave: that is left as it is, for another run."""
    memo: dict[int, Any] = {id(optimizer.param_dict): {}}  # of a Trainer that it has been in
    own = copy.deepcopy(optimizer, memo)
    own.lr_scheduler = None  # rates come from the schedule
    return own


def _momentum(factory: Any, optim: Optim) -> dict[str, float]:
    """Return --momentum under the name that the user's `factory` has for it.

    **kwargs go to the class that it extends or to an unknown place, so they get it only if it is not the default.
    """
    classes = factory.__mro__ if inspect.isclass(factory) else ()
    for maker in [vars(class_)["__init__"] for class_ in classes if "__init__" in vars(class_)] or [factory]:
        accepted = inspect.signature(maker).parameters
        for key in ("momentum", "beta1"):
            if key in accepted:
                return {key: optim.momentum}
        if optim.momentum == Optim.momentum:
            return {}
        if not any(each.kind is each.VAR_KEYWORD for each in accepted.values()):
            raise UsageError(
                f"--momentum {optim.momentum:g}: --optimizer {optim.optimizer} takes neither momentum nor beta1; "
                "leave --momentum out"
            )
    return {"momentum": optim.momentum}
