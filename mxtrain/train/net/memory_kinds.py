"""Kinds of what the processes of a run hold, by arithmetic: weights, gradients, states and the rest, for its record."""

from __future__ import annotations

import dataclasses

from mxtrain.models import remat
from mxtrain.train.context import TrainContext
from mxtrain.train.net import net_bytes, ways
from mxtrain.train.net.memory_plan import OF_SERVER, OF_WORKER, NetBytes, ProcessBytes


def of_built(context: TrainContext) -> NetBytes:
    """Return the bytes of the net of a context; without those of activations where it is no graph."""
    job, net, graph = context.job, context.net, remat.graph_of(context.net)
    known = net_bytes.with_optimizer(job.run, net, context.optimizer)
    if graph is None:
        return known
    micro_batch, contract = job.plan.batch.micro_batch, job.task.contract()
    shapes = {each.name: (micro_batch, *shape) for each, shape in zip(graph[0], contract.inputs)}
    return net_bytes.of_graph(known, net.collect_params().values(), graph[1], shapes, contract.loss_shape)


def by_process(context: TrainContext) -> dict[str, dict[str, int]]:
    """Return the bytes of each kind that each process of the run holds at most, by the process's name.

    Args:
        context: The run as it is trained.

    Returns:
        Of `worker 0`, of `each other worker`, `each server` and `each device` where there are some, the kinds that are
        not empty; `program` is what Python and MXNet take.
    """
    trained, job = net_bytes.trained_of(context.net), context.job
    processes = net_bytes.processes_of(job.run, job.plan.batch, trained)
    own = ways.planned_as_it_is(job.run, of_built(context), processes)
    kinds = {"worker 0": _kinds(own.plan.first_worker, OF_WORKER)}
    if processes.workers > 1:
        kinds["each other worker"] = _kinds(own.plan.worker, OF_WORKER)
    if processes.servers:
        kinds["each server"] = _kinds(own.plan.server, OF_SERVER)
    if processes.are_gpus or own.way.is_in_stages:
        kinds.update({f"device {number}": _kinds(each) for number, each in enumerate(own.plan.devices)})
    return kinds


def _kinds(process: ProcessBytes, program: int = 0) -> dict[str, int]:
    found = {"program": program, **dataclasses.asdict(process)}
    return {kind: num_bytes for kind, num_bytes in found.items() if num_bytes}
