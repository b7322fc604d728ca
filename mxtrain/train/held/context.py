"""The context of a process that holds one segment of its net at a time: its parts, and who owns the weights."""

from __future__ import annotations

from mxtrain.config import exact_sums
from mxtrain.kvstore.owners.local_owner import LocalOwner
from mxtrain.kvstore.owners.owner import Owners
from mxtrain.kvstore.owners.traffic import Traffic
from mxtrain.models.held.segment_weights import SegmentWeights
from mxtrain.models.parameters.first_weights import FirstWeights
from mxtrain.optim import optimizers
from mxtrain.train.context import TrainContext, assembled, new_grid, parameters_of
from mxtrain.train.held import build
from mxtrain.train.held.trainer import HeldTrainer
from mxtrain.train.job import TrainingJob
from mxtrain.train.net import build_net


def held_context(job: TrainingJob) -> TrainContext:
    """Return everything that a first step of `job` needs; first weights are with their owners by then."""
    run = job.run
    devices = build_net.devices_of(run.layout.devices)
    built, net, first_weights = build.build(job.task, devices[0])
    parameters = parameters_of(run, net)
    optimizer = optimizers.build(run.optim, job.task.objects)
    owners = LocalOwner(parameters, optimizer)
    indices = {each.name: index for index, each in enumerate(parameters)}
    if job.checkpoint is None and job.group.rank == 0:
        _put(first_weights, owners, indices)
    first_weights.fill(net.held)
    traffic = Traffic(owners)
    net.weights = SegmentWeights(traffic, [each.lent for each in net.segments], indices)
    trained = [each for each in parameters if each.grad_req != "null"]
    grid = new_grid(job, trained, has_totals=False) if exact_sums.has_sums(run) else None
    trainer = HeldTrainer(parameters, net.held, optimizer, owners, traffic, job.group)
    return assembled(job, built, devices, trainer, optimizer, grid)


def _put(first_weights: FirstWeights, owners: Owners, indices: dict[str, int]) -> None:
    for parameter, weights in first_weights.drawn():
        owners.put(indices[parameter.name], weights.asnumpy().ravel())
