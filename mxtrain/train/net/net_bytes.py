"""The bytes that a run's net takes, from the graph that describes it; nothing of it has to be built.

Owns the facts that `memory_plan.py` computes with.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from typing import TYPE_CHECKING, Iterable, Mapping, Sequence

import numpy as np

from mxtrain.config import Run, exact_sums
from mxtrain.config.batch_plan import BatchPlan, parse_devices
from mxtrain.config.components import stores
from mxtrain.kvstore import buckets
from mxtrain.models import segments
from mxtrain.models.contract import Shape
from mxtrain.models.heads.class_chunks import ChunkedHead
from mxtrain.models.parameters import weights
from mxtrain.models.rewrites import graph_rewrites
from mxtrain.models.rewrites.graph_rewrites import Graph, Shapes
from mxtrain.optim import optimizer_state
from mxtrain.runtime import mx
from mxtrain.train.net.memory_plan import NetBytes, Processes, SegmentBytes

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block, Optimizer, Parameter, Symbol

LARGE = 1 << 24  # numbers of an array
LOSSES = 3  # arrays like the net's answer, or as large as a loss makes it: its own, the shares, the gradient


def with_optimizer(run: Run, net: Block, optimizer: Optimizer) -> NetBytes:
    """Return what is known of a net, whose parameters have shapes, without its graph."""
    parameters = list(weights.named_parameters(net).values())
    of_optimizer = state_bytes(optimizer, [each.shape for each in parameters if each.grad_req != "null"])
    known = of_parameters(parameters, of_optimizer, bool(run.optim.ema))
    chunks = [
        sum(map(num_bytes, chunk.parameters))
        for head in weights.layers(net, ChunkedHead)
        for chunk in head.chunks
    ]
    return dataclasses.replace(known, head=sum(chunks), chunk=max(chunks, default=0))


def of_parameters(parameters: Iterable[Parameter], state: int, has_averages: bool) -> NetBytes:
    """Return what these parameters tell; those with sparse gradients count as if they had none."""
    sizes = [
        (num_bytes(each), each.grad_req != "null" and each._grad_stype == "default") for each in parameters
    ]
    all_weights, trained = sum(size for size, _ in sizes), [size for size, is_dense in sizes if is_dense]
    return NetBytes(
        weights=all_weights,
        trained=sum(trained),
        state=state,
        averages=all_weights if has_averages else 0,
        largest=max(trained, default=0),
        split=sum(size for size in trained if buckets.is_split(size // buckets.BYTES_OF_FLOAT)),
        computed=0,
    )


def of_graph(
    known: NetBytes,
    parameters: Iterable[Parameter],
    output: Symbol,
    inputs: Mapping[str, Shape],
    loss_shape: Shape | None = None,
) -> NetBytes:
    """Return `known` with what the graph of `output` tells: what is computed, and where the net can be cut.

    The loss works on the answer, or on `loss_shape` of each sample.
    """
    graph, shapes = graph_rewrites.nodes_and_shapes(output, inputs)
    batch = next(iter(inputs.values()))[0]
    in_loss = (batch, *loss_shape) if loss_shape else _shape_of_answer(graph, shapes)
    losses = LOSSES * segments.FLOAT32_BYTES * math.prod(in_loss)
    computed = segments.num_bytes(graph, shapes) + losses
    parts: list[SegmentBytes] = []
    if len(inputs) == 1:
        (data,) = inputs
        sizes = {each.name: num_bytes(each) for each in parameters}
        graphs = segments.split(graph, shapes, data)
        found = segments.inside_and_handed_on(graph, shapes, data)
        parts = [
            SegmentBytes(_weights_in(part, sizes), inside + losses * (part is graphs[-1]), handed_on)
            for part, (inside, handed_on) in zip(graphs, found)
        ]
    return dataclasses.replace(known, computed=computed, segments=parts if len(parts) > 1 else ())


def _shape_of_answer(graph: Graph, shapes: Shapes) -> Shape:
    (head, output, *_), *_ = graph["heads"]
    return tuple(graph_rewrites.shape_of(graph, shapes, head, output)) or (0,)


def _weights_in(graph: Graph, sizes: Mapping[str, int]) -> int:
    return sum(sizes.get(node["name"], 0) for node in graph["nodes"] if node["op"] == "null")


def trained_of(net: Block) -> list[Parameter]:
    """Return the parameters of a net that train."""
    return [each for each in net.collect_params().values() if each.grad_req != "null"]


def processes_of(run: Run, batch: BatchPlan, trained: Sequence[Parameter]) -> Processes:
    """Return the processes of a job of `run`, whose net has these trained parameters."""
    layout, is_cluster = run.layout, stores.is_cluster(run.layout.kvstore)
    devices = len(parse_devices(layout.devices))
    batch = dataclasses.replace(batch, num_devices=devices // layout.stages)
    types = {each.name: np.dtype(each.dtype).name for each in trained}
    tables = [each.name for each in trained if each._grad_stype != "default"]
    others = {name: dtype for name, dtype in types.items() if dtype != "float32"}
    return Processes(
        workers=batch.num_workers if is_cluster else 1,
        servers=stores.num_servers(layout.kvstore, layout.num_servers),
        devices=devices,
        micro_batches=len(batch.positions(batch.num_micro_batches, 0)),
        is_exact=exact_sums.has_sums(run) and exact_sums.reason_against(run, tables, others) is None,
        are_gpus=exact_sums.is_on_gpus(run),
        is_cluster=is_cluster,
    )


def state_bytes(optimizer: Optimizer, shapes: Iterable[Shape]) -> int:
    """Return the size of the optimizer's state for weights of these shapes, made once for each shape."""
    total = 0
    for index, (shape, count) in enumerate(collections.Counter(map(tuple, shapes)).items()):
        rows = shape[0] if math.prod(shape) > LARGE else 1  # of large ones a row is made
        made = optimizer.create_state_multi_precision(index, mx.nd.empty((shape[0] // rows, *shape[1:])))
        arrays = optimizer_state.state_arrays(made)
        total += rows * count * sum(array.size * np.dtype(array.dtype).itemsize for array in arrays)
    return total


def num_bytes(parameter: Parameter) -> int:
    """Return the size of a parameter, whether or not it has memory."""
    return math.prod(parameter.shape) * np.dtype(parameter.dtype).itemsize
