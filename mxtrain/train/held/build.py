"""A net that is trained segment by segment, as it is before the first step: described and cut, without weights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mxtrain.config import batch_plan
from mxtrain.config.components.choices import HOLD_LAYERS
from mxtrain.core.errors import UsageError
from mxtrain.models import remat
from mxtrain.models.autocast.autocast import Forecast
from mxtrain.models.held.held_net import HeldNet
from mxtrain.models.nets import zoo
from mxtrain.models.parameters import initializers
from mxtrain.models.parameters.first_weights import FirstWeights
from mxtrain.optim import freeze, precision
from mxtrain.runtime.types import Device, Parameter
from mxtrain.tasks import registry as tasks
from mxtrain.tasks.task import Task
from mxtrain.train.net.build_net import BuiltNet

FLAG = f"--hold {HOLD_LAYERS}"


class HeldBuild(NamedTuple):
    """A net without weights, and what draws its first ones."""

    built: BuiltNet
    net: HeldNet
    first_weights: FirstWeights


def build(task: Task, device: Device) -> HeldBuild:
    """Return the net of the task's run; call it inside `build_net.compiling`."""
    run, model = task.run, task.run.model
    micro_batch = batch_plan.of_run(run).micro_batch
    narrowing = precision.autocast_of(model, device.device_type)
    name = model.model if "model" in task.flags else model.task  # for messages
    with tasks.in_code_of(task):
        contract, net = task.contract(), task.build_net()
    zoo.clear_added_gradients(net)
    brought = [each.name for each in net.collect_params().values() if initializers.is_brought(each)]
    if brought:
        raise UsageError(f"{FLAG}: {name} brings values of its own, as of {brought[0]}; leave it out")
    if model.freeze:
        freeze.freeze(net, model.freeze)
    if model.zero_gamma:
        initializers.zero_gamma(net, name)
    first_weights = FirstWeights(net, model.init, run.optim.seed, device)
    with first_weights.noted():
        zoo.trace(net, name, device, contract, narrowing, micro_batch, FLAG)
    others = [each.name for each in net.collect_params().values() if not _is_plain(each)]
    if others:
        raise UsageError(f"{FLAG}: {others[0]} of {name} is no plain array of float32; leave it out")
    cut = remat.cut(net, FLAG, name, (micro_batch, *contract.inputs[0]))
    held = HeldNet(net, cut)
    net.hybridize(active=False)
    return HeldBuild(BuiltNet(held, narrowing.forecast if narrowing else Forecast(), {}), held, first_weights)


def _is_plain(parameter: Parameter) -> bool:
    is_dense = parameter._stype == parameter._grad_stype == "default"
    return is_dense and np.dtype(parameter.dtype) == np.float32
