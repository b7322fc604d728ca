"""The net as `--dry-run` prints it: a table of its parameters, and the bytes of each way to train it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Iterator, NamedTuple

import numpy as np

from mxtrain.config import Run
from mxtrain.config.components import nets
from mxtrain.config.components.choices import HOLD_LAYERS
from mxtrain.core.system import machine
from mxtrain.models.nets.table import Table, tables_of
from mxtrain.models.parameters import running_statistics, weights
from mxtrain.optim import layer_rates, schedules
from mxtrain.optim.weight_decay import exempt_from_decay
from mxtrain.train.context import build_context
from mxtrain.train.job import TrainingJob
from mxtrain.train.net import described, memory_kinds, memory_plan, net_bytes, ways
from mxtrain.train.net.memory_plan import NetBytes
from mxtrain.train.net.net_bytes import num_bytes

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block, Parameter

HEAD = ("parameter", "shape", "type", "numbers", "", "", "")


class Description(NamedTuple):
    """The net of a job: a line for each parameter with the sums, and the bytes of each way to train it."""

    parameters: str
    memory: list[str]


def parameter_table(job: TrainingJob) -> str:
    """Return the first half of `description`."""
    return description(job).parameters


def description(job: TrainingJob) -> Description:
    """Build all that a step of `job` needs, and describe it.

    A GPT that is too large for this machine is described and not built, which a line says.
    """
    run, num_devices = job.run, job.plan.batch.num_devices
    left = machine.available_memory()
    if nets.takes(run.model.model) == nets.TOKENS:
        known = described.of_job(job)
        if known is not None and 2 * num_devices * _weights(known.net) > left:
            if not run.optim.decay_all:
                exempt_from_decay(known.net.collect_params().values())
            layer_rates.scale_rates(known.net, run.optim)
            facts = described.num_bytes(job, known)
            lines = _table(run, known.net, num_devices, facts)
            remark = f"this machine has {_mb(left)} left, which is too little: nothing was built"
            return Description(f"{lines}\n{remark}", _memory(job, known.net, facts, left))
    context = build_context(job, is_trial=True)
    facts = memory_kinds.of_built(context)
    return Description(_table(run, context.net, num_devices, facts), _memory(job, context.net, facts, left))


def _weights(net: Block) -> int:
    return sum(map(num_bytes, net.collect_params().values()))


def _memory(job: TrainingJob, net: Block, facts: NetBytes, left: int) -> list[str]:
    trained = net_bytes.trained_of(net)
    processes = functools.partial(net_bytes.processes_of, batch=job.plan.batch, trained=trained)
    return ways.table(*ways.planned(job.run, facts, processes), left)


def _table(run: Run, net: Block, num_devices: int, facts: NetBytes) -> str:
    named = weights.named_parameters(net)
    running = {parameter.name for parameter in running_statistics.parameters(net)}
    rows = [HEAD, *(_row(run, name, parameter, running) for name, parameter in named.items())]
    rows += [_row_of_table(run, table) for table in tables_of(net)]
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    return "\n".join([*lines, *_sums(run, list(named.values()), num_devices, facts)])


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


def _row_of_table(run: Run, table: Table) -> tuple[str, ...]:
    options, factor = table.options, table.options.rate_factor * table.lr_mult
    return (
        options.name,
        f"ids x {options.width}",
        "float32",
        "grows",
        "frozen" if table.is_frozen else "trained",
        "decays" if options.decay and not table.is_frozen else "",
        f"rate {schedules.peak_rate(run.optim) * factor:g}" if factor != 1 and not table.is_frozen else "",
    )


def _sums(run: Run, parameters: list[Parameter], num_devices: int, facts: NetBytes) -> Iterator[str]:
    trained = [parameter for parameter in parameters if _trains(parameter)]
    averages = f", averages {_mb(facts.averages)} on the first" if facts.averages else ""
    is_cut = run.model.remat or run.layout.hold == HOLD_LAYERS
    computed = memory_plan.recomputed(facts) if is_cut else facts.computed
    numbers = sum(map(_numbers, parameters))
    yield f"{numbers:,} numbers in {len(parameters)} parameters, {sum(map(_numbers, trained)):,} of them trained"
    holder = f"each device ({num_devices}) holds"
    if run.layout.stages > 1:
        holder = f"{run.layout.stages} devices hold, each of its layers,"
    yield (
        f"{holder} weights {_mb(facts.weights)}, gradients {_mb(facts.trained)}, "
        f"state of {run.optim.optimizer} {_mb(facts.state)}{averages}, and what it "
        f"computes{f' (about {_mb(computed)} a micro-batch)' if computed else ''}"
    )


def _trains(parameter: Parameter) -> bool:
    return bool(parameter.grad_req != "null")


def _numbers(parameter: Parameter) -> int:
    return int(np.prod(parameter.shape))


def _mb(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:.1f} MB"
