"""The table of parameters that `--dry-run` prints, and the memory that they take."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Iterable, Iterator, Sequence

import numpy as np

from mxtrain.config import Run
from mxtrain.config.components import nets
from mxtrain.config.components.choices import HOLD_LAYERS
from mxtrain.core.system import machine
from mxtrain.models import remat, segments
from mxtrain.models.contract import Shape
from mxtrain.models.parameters import running_statistics, weights
from mxtrain.models.rewrites import graph_rewrites
from mxtrain.optim import freeze, layer_rates, optimizer_state, optimizers, schedules
from mxtrain.optim.weight_decay import exempt_from_decay
from mxtrain.runtime import mx
from mxtrain.train.context import build_context
from mxtrain.train.job import TrainingJob

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block, Optimizer, Parameter

HEAD = ("parameter", "shape", "type", "numbers", "", "", "")


def parameter_table(job: TrainingJob) -> str:
    """Build all that a step of `job` needs, and return a line for each parameter of its net and two with the sums.

    A GPT that is too large for this machine is described and not built, which a third line says.
    """
    run, task, num_devices = job.run, job.task, job.plan.batch.num_devices
    if nets.takes(run.model.model) == nets.TOKENS:
        net, left = task.build_net(), machine.available_memory()
        if 2 * num_devices * sum(map(_bytes, net.collect_params().values())) > left:
            optimizer, computed = _prepare(job, net)
            table = _table(run, net, optimizer, num_devices, computed)
            return f"{table}\nthis machine has {_mb(left)} left, which is too little: nothing was built"
    context = build_context(job, is_trial=True)
    computed = _computed_bytes(context.net, job.plan.batch.micro_batch, task.contract().inputs)
    return _table(run, context.net, context.optimizer, num_devices, computed)


def _prepare(job: TrainingJob, net: Block) -> tuple[Optimizer, int]:
    """Mark what trains and decays; return the optimizer, and about how much memory a micro-batch takes."""
    run = job.run
    if run.model.freeze:
        freeze.freeze(net, run.model.freeze)
    if not run.optim.decay_all:
        exempt_from_decay(net.collect_params().values())
    layer_rates.scale_rates(net, run.optim)
    shape = (job.plan.batch.micro_batch, *job.task.contract().inputs[0])
    graph, shapes = graph_rewrites.nodes_and_shapes(net(mx.sym.var("data")), {"data": shape})
    is_cut = run.model.remat or run.layout.hold == HOLD_LAYERS
    computed = segments.lowest_peak(graph, shapes, "data") if is_cut else segments.num_bytes(graph, shapes)
    return optimizers.build(run.optim, job.task.objects), computed


def _table(run: Run, net: Block, optimizer: Optimizer, num_devices: int, computed: int) -> str:
    named = weights.named_parameters(net)
    running = {parameter.name for parameter in running_statistics.parameters(net)}
    rows = [HEAD, *(_row(run, name, parameter, running) for name, parameter in named.items())]
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    return "\n".join([*lines, *_sums(run, optimizer, list(named.values()), num_devices, computed)])


def _row(run: Run, name: str, parameter: Parameter, running: set[str]) -> tuple[str, ...]:
    trains, decays = _trains(parameter), run.optim.weight_decay * parameter.wd_mult > 0
    return (
        name,
        "x".join(map(str, parameter.shape)),
        np.dtype(parameter.dtype).name,
        f"{_numbers(parameter):,}",
        "trained" if trains else "moves with the data" if parameter.name in running else "frozen",
        "decays" if trains and decays else "",
        f"rate {schedules.peak_rate(run.optim) * parameter.lr_mult:g}"
        if trains and parameter.lr_mult != 1
        else "",
    )


def _computed_bytes(net: Block, micro_batch: int, inputs: Sequence[Shape]) -> int:
    """Return about how much memory a micro-batch takes on its way through the net, without the loss; 0 if not known."""
    if isinstance(net, remat.SegmentedNet):
        return net.num_bytes
    if not getattr(net, "_active", False):  # no graph
        return 0
    variables, output = net._cached_graph
    known = {each.name: (micro_batch, *shape) for each, shape in zip(variables, inputs)}
    return segments.num_bytes(*graph_rewrites.nodes_and_shapes(output, known))


def _sums(
    run: Run, optimizer: Optimizer, parameters: list[Parameter], num_devices: int, computed: int
) -> Iterator[str]:
    trained = [parameter for parameter in parameters if _trains(parameter)]
    weight_bytes, gradient_bytes = (sum(map(_bytes, each)) for each in (parameters, trained))
    of_optimizer = state_bytes(optimizer, [parameter.shape for parameter in trained])
    averages = f", averages {_mb(weight_bytes)} on the first" if run.optim.ema else ""
    numbers = sum(map(_numbers, parameters))
    yield f"{numbers:,} numbers in {len(parameters)} parameters, {sum(map(_numbers, trained)):,} of them trained"
    yield (
        f"each device ({num_devices}) holds weights {_mb(weight_bytes)}, gradients {_mb(gradient_bytes)}, "
        f"state of {run.optim.optimizer} {_mb(of_optimizer)}{averages}, and what it "
        f"computes{f' (about {_mb(computed)} a micro-batch, without the loss)' if computed else ''}"
    )


def state_bytes(optimizer: Optimizer, shapes: Iterable[Shape]) -> int:
    """Return the size of the optimizer's state for weights of these shapes, made once for each shape."""
    total = 0
    for index, (shape, count) in enumerate(collections.Counter(map(tuple, shapes)).items()):
        made = optimizer.create_state_multi_precision(index, mx.nd.empty(shape))
        arrays = optimizer_state.state_arrays(made)
        total += count * sum(array.size * np.dtype(array.dtype).itemsize for array in arrays)
    return total


def _trains(parameter: Parameter) -> bool:
    return bool(parameter.grad_req != "null")


def _numbers(parameter: Parameter) -> int:
    return int(np.prod(parameter.shape))


def _bytes(parameter: Parameter) -> int:
    return _numbers(parameter) * np.dtype(parameter.dtype).itemsize


def _mb(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:.1f} MB"
