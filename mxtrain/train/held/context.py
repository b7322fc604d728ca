"""The context of a process that holds one segment of its net at a time: its parts, and who owns the weights.

The net is described and cut without weights. Its first ones are drawn one parameter at a time, for their owners.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mxtrain.config import batch_plan, exact_sums
from mxtrain.config.checks import hold_checks
from mxtrain.config.components.choices import HOLD_LAYERS
from mxtrain.core.errors import UsageError
from mxtrain.kvstore.owners import layout, mapped
from mxtrain.kvstore.owners.local import LocalOwners
from mxtrain.kvstore.owners.owner import Owners
from mxtrain.models import remat
from mxtrain.models.analysis import shapes
from mxtrain.models.autocast.autocast import Forecast
from mxtrain.models.contract import Contract
from mxtrain.models.heads import margins
from mxtrain.models.nets import zoo
from mxtrain.models.parameters import initializers
from mxtrain.models.parameters.first_weights import FirstWeights
from mxtrain.optim import freeze, optimizers, precision
from mxtrain.runtime import mx
from mxtrain.runtime.memory import memory
from mxtrain.runtime.types import Block, Device, Parameter
from mxtrain.tasks import registry as tasks
from mxtrain.tasks.task import Task
from mxtrain.train.context import TrainContext, assembled, new_grid, owners_of, parameters_of
from mxtrain.train.held.head_passes import owned_head
from mxtrain.train.held.held_net import HeldNet
from mxtrain.train.held.segment_weights import SegmentWeights
from mxtrain.train.held.trainer import HeldTrainer
from mxtrain.train.job import TrainingJob
from mxtrain.train.net import build_net
from mxtrain.train.net.build_net import BuiltNet


def held_context(job: TrainingJob) -> TrainContext:
    """Return everything that a first step of `job` needs; first weights are with their owners by then."""
    run, is_fresh = job.run, job.checkpoint is None
    if is_fresh and run.model.pretrained:
        flag = hold_checks.flag_of(run)
        raise UsageError(
            f"--pretrained {run.model.pretrained} with {flag}: is read as a whole; begin the run in one process, "
            f"without --hold, and resume it with {flag}"
        )
    devices = build_net.devices_of(run.layout.devices)
    net, forecast, first_weights = described(job.task, devices[0])
    parameters = parameters_of(run, net)
    optimizer = optimizers.build(run.optim, job.task.objects)
    owners: Owners | None = owners_of(job, parameters)
    if owners is None:
        folder = mapped.open_folder(run.layout.store_dir)
        owners = LocalOwners(layout.of_parameters(parameters, run.optim), optimizer, folder)
    indices = {each.name: index for index, each in enumerate(parameters)}
    if is_fresh and job.group.rank == 0:
        for parameter, weights in first_weights.drawn():
            owners.put(indices[parameter.name], memory(weights))
            del weights  # before the next ones are drawn
    job.group.sum(0)  # until all are there
    first_weights.fill(net.held)
    net.weights = SegmentWeights(owners, [each.lent for each in net.segments], indices)
    trained = [each for each in parameters if each.grad_req != "null"]
    grid = new_grid(job, trained, has_totals=False) if exact_sums.has_sums(run) else None
    if net.head is not None:
        net.head.lender = owned_head(net.head, owners, parameters, grid, margins.of_loss(run.model.loss))
    trainer = HeldTrainer(parameters, net.held, optimizer, owners, job.group)
    return assembled(job, BuiltNet(net, forecast, {}), devices, trainer, optimizer, grid)


class Described(NamedTuple):
    """A net without weights, what of it runs in bfloat16, and what draws its first weights."""

    net: HeldNet
    forecast: Forecast
    first_weights: FirstWeights


def described(task: Task, device: Device) -> Described:
    """Return the net of the task's run, cut."""
    run, model = task.run, task.run.model
    flag = hold_checks.flag_of(run)
    is_cut = model.remat or run.layout.hold == HOLD_LAYERS or not hold_checks.has_lent_head(run)
    micro_batch = batch_plan.of_run(run).micro_batch
    narrowing = precision.autocast_of(model, device.device_type)
    name = model.model if "model" in task.flags else model.task  # for messages
    with tasks.in_code_of(task):
        contract, net = task.contract(), task.build_net()
    zoo.clear_added_gradients(net)
    brought = [each.name for each in net.collect_params().values() if initializers.is_brought(each)]
    if brought:
        raise UsageError(f"{flag}: {name} brings values of its own, as of {brought[0]}; leave it out")
    if model.freeze:
        freeze.freeze(net, model.freeze)
    if model.zero_gamma:
        initializers.zero_gamma(net, name)
    first_weights = FirstWeights(net, model.init, run.optim.seed, device)
    with first_weights.noted():
        _fix_shapes(net, name, contract, flag)
        with zoo.rewriting(narrowing):
            net.hybridize()
            net._get_graph(mx.nd.empty((micro_batch, *contract.inputs[0]), ctx=device))
    others = [each.name for each in net.collect_params().values() if not _is_plain(each)]
    if others:
        raise UsageError(f"{flag}: {others[0]} of {name} is no plain array of float32; leave it out")
    held = HeldNet(net, remat.cut(net, flag, name, (micro_batch, *contract.inputs[0]), is_cut))
    net.hybridize(active=False)
    return Described(held, narrowing.forecast if narrowing else Forecast(), first_weights)


def _fix_shapes(net: Block, name: str, contract: Contract, flag: str) -> None:
    """Fix all shapes, as `zoo.compile` does; UsageError where that takes weights or a sample, or they do not fit."""
    if not isinstance(net, mx.gluon.HybridBlock) or len(contract.inputs) != 1:
        raise UsageError(f"{flag}: {name} is no graph of one input, so it cannot be cut; leave it out")
    answer = shapes.fill_parameters(net, (1, *contract.inputs[0]))
    if answer is None:
        raise UsageError(
            f"{flag}: the shapes of {name} are known only once it has computed a sample, as a whole; leave it out, or "
            "give its layers the numbers that they take (in_units, in_channels)"
        )
    if contract.answer is not None and answer != (1, *contract.answer):
        raise UsageError(f"--model {name}: gives {answer} for one {contract.noun}, but {contract.expects}")
    zoo.refuse_unused(f"--model {name}", net)


def _is_plain(parameter: Parameter) -> bool:
    is_dense = parameter._stype == parameter._grad_stype == "default"
    return is_dense and np.dtype(parameter.dtype) == np.float32
