"""The plain float32 graph of a trained net, as MXNet's Symbol, with its weights.

Owns tracing it. It computes what an evaluation computes: weights are the averaged ones where the checkpoint has some.
What training does to graphs, to weights in bfloat16, and to gradients is not in it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Callable, Iterator, Mapping, NamedTuple, Sequence

import numpy as np

from mxtrain.checkpoint import initial_weights
from mxtrain.checkpoint.directory import Checkpoint
from mxtrain.config import Run, program_objects
from mxtrain.config.components import choices
from mxtrain.core import params_file
from mxtrain.core.errors import UsageError
from mxtrain.core.params_file import ArraysOneByOne, NamedArrays
from mxtrain.inference import trained_run
from mxtrain.models import remat
from mxtrain.models.contract import Shape
from mxtrain.models.nets.recommender_nets import OverRows
from mxtrain.models.parameters import weights
from mxtrain.models.rewrites.repairs import prelu
from mxtrain.runtime import mx
from mxtrain.tasks.task import Task

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block, NDArray, Parameter, Symbol


class InferenceGraph(NamedTuple):
    """A net as a graph. Arrays are on the CPU; inputs and outputs have the batch as their first axis."""

    name: str  # as messages have it: `--model resnet18_v1b`
    symbol: Symbol
    arguments: Mapping[str, NDArray]  # weights, by the names of the symbol's variables, perhaps in a file
    auxiliaries: Mapping[str, NDArray]  # running statistics, the same way
    inputs: dict[str, Shape]  # of one sample, by name, in the order in which the net takes them
    outputs: dict[str, Shape]  # of one sample; the names are those of symbol.list_outputs()
    takes: str = "float32"  # the type of its inputs; outputs are float32

    def shapes_of(self, batch: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the inputs of a batch."""
        return {name: (batch, *shape) for name, shape in self.inputs.items()}


@contextlib.contextmanager
def of_checkpoint(
    checkpoint: Checkpoint, run: Run, task: Task, hold: str = choices.HOLD_ALL
) -> Iterator[tuple[Block, InferenceGraph]]:
    """Yield the net of a checkpoint, in float32 and on the CPU, and its graph; loads mxnet.

    By `hold` the weights of both are here as a whole, or are read as they are looked at.
    """
    in_float32 = dataclasses.replace(run, model=dataclasses.replace(run.model, amp="off"))
    with trained_run.net_of(checkpoint, in_float32, "cpu", task.objects, hold) as (
        net,
        _,
    ):
        path = initial_weights.weights_of(checkpoint.path) if hold == choices.HOLD_LAYERS else None
        yield net, of_net(net, task, path)


def of_net(net: Block, task: Task, path: Path | None = None) -> InferenceGraph:
    """Return the graph of the task's net, or of what is behind its table; UsageError for a net that is no graph.

    Its weights are those of a file at `path`, each read when it is looked at, or without one the net's own.
    """
    run = task.run
    is_named = "model" in task.flags or program_objects.is_object(run.model.model)
    name = f"--model {run.model.model}" if is_named else f"--task {run.model.task}"
    if isinstance(net, OverRows):
        return of_inputs(net.head_of_rows(), name, net.head_shapes, path)
    return of_inputs(net, name, inputs_of(task), path)


def of_inputs(net: Block, name: str, inputs: dict[str, Shape], path: Path | None = None) -> InferenceGraph:
    """Return the graph of a net, `name` in messages, that takes inputs of these shapes; the rest as `of_net`."""
    symbol = traced(remat.unwrapped(net), name, list(inputs))
    makers = _makers(net, path)
    own = [each for each in symbol.list_arguments() if each not in inputs]
    arguments, auxiliaries = (
        ArraysOneByOne({name: makers[name] for name in names})
        for names in (own, symbol.list_auxiliary_states())
    )
    _, shapes, _ = symbol.infer_shape(**{each: (1, *shape) for each, shape in inputs.items()})
    outputs = {each: shape[1:] for each, shape in zip(symbol.list_outputs(), shapes)}
    if path is None:
        return InferenceGraph(name, symbol, dict(arguments), dict(auxiliaries), inputs, outputs)
    return InferenceGraph(name, symbol, arguments, auxiliaries, inputs, outputs)


def inputs_of(task: Task) -> dict[str, Shape]:
    """Return the shapes of the net's inputs, of one sample, by the names of the task's first fields, if it has them."""
    shapes = task.contract().inputs
    fields = list(task.fields)[: len(shapes)]
    if [field.shape for field in fields] == list(shapes):
        return {field.name: field.shape for field in fields}
    names = ["data"] if len(shapes) == 1 else [f"data{number}" for number in range(len(shapes))]
    return dict(zip(names, shapes))


def traced(net: Block, name: str, inputs: Sequence[str]) -> Symbol:
    """Return the output of the net, given symbols for its inputs; whether it is compiled makes no difference."""
    try:
        with prelu.as_one_node():
            output = net(*map(mx.sym.var, inputs))
        symbol: Symbol = output if isinstance(output, mx.sym.Symbol) else mx.sym.Group(list(output))
    except Exception as error:  # of MXNet, or of a forward function that needs numbers
        why = "" if isinstance(net, mx.gluon.HybridBlock) else "it is a Block, not a HybridBlock, and "
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]
        raise UsageError(
            f"{name}: {why}cannot be traced into a graph, so there is nothing to show or export; write it as a "
            f"HybridBlock, whose forward pass asks for no shapes and no numbers ({reason})"
        ) from None
    unknown = set(inputs) - set(symbol.list_arguments())
    if unknown:
        raise UsageError(
            f"{name}: does not use its input {', '.join(sorted(unknown))}; it cannot be exported"
        )
    return symbol


def _makers(net: Block, path: Path | None) -> dict[str, Callable[[], NDArray]]:
    """Return what makes a copy of each parameter by its name, as float32 in plain order, on the CPU."""
    named = weights.named_parameters(net)
    if path is None:
        return {each.name: functools.partial(_value, each) for each in named.values()}
    stored = params_file.opened(path)
    return {each.name: functools.partial(_stored, stored, name) for name, each in named.items()}


def _value(parameter: Parameter) -> NDArray:
    values = parameter.list_data()[0].asnumpy().astype(np.float32, copy=False)
    copied: NDArray = mx.nd.array(values, dtype="float32")
    return copied


def _stored(arrays: NamedArrays, name: str) -> NDArray:
    read: NDArray = mx.nd.array(arrays[name], dtype="float32")
    return read
