"""Shapes of a net's parameters, and with them its first weights, from the net's graph: no picture is computed.

A forward pass in Gluon gives each parameter its values when a layer is reached first. Random weights come from one
stream, so they are drawn here in the same order; a net that cannot be read like this needs the forward pass.
"""

from __future__ import annotations

import warnings
from typing import Any

from mxtrain.models.contract import Shape
from mxtrain.runtime import mx
from mxtrain.runtime.types import Block, Symbol

OUTPUT = ""  # no variable's name


def fill_parameters(net: Block, input_shape: Shape) -> Shape | None:
    """Give all parameters of an initialised net their shapes and values, and return the shape of its output.

    None, and nothing has changed, for a net that is not one graph of known shapes with one input and one output.
    """
    traced = _blocks_and_graph(net)
    if traced is None:
        return None
    blocks, output = traced
    shapes = of_variables(output, input_shape)
    parameters = list(net.collect_params().values())
    if not shapes or any(each._deferred_init and each.name not in shapes for each in parameters):
        return None
    for parameter in parameters:
        parameter.shape = shapes.get(parameter.name, parameter.shape)
    for block in blocks:
        for parameter in block.params.values():
            parameter._finish_deferred_init()
    return shapes[OUTPUT]


def _blocks_and_graph(net: Block) -> tuple[list[Block], Symbol] | None:
    """Return a net's blocks, in the order in which a forward pass calls them, and its graph; None without one."""
    blocks: list[Any] = []
    net.apply(blocks.append)
    if not all(_is_plain(block) for block in blocks):
        return None
    called: list[Any] = []
    hooks = [block.register_forward_pre_hook(lambda block, _: called.append(block)) for block in blocks]
    try:
        output = net(mx.sym.var("data"))
    except Exception:  # whatever it is: the forward pass will name it
        return None
    finally:
        for hook in hooks:
            hook.detach()
    return (called, output) if isinstance(output, mx.sym.Symbol) and len(output) == 1 else None


def _is_plain(block: Block) -> bool:
    """Return whether Gluon gives all parameters of the block their values as it is called, and computes then."""
    gluon_block = mx.gluon.HybridBlock
    return isinstance(block, gluon_block) and (type(block).forward is gluon_block.forward or not block.params)


def of_variables(output: Symbol, input_shape: Shape) -> dict[str, Shape]:
    """Return the shapes of a graph's variables and, as OUTPUT, of its output; none where not all follow."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MXNet warns of each shape that does not follow
        try:
            arguments, outputs, auxiliaries = output.infer_shape(data=input_shape)
        except (mx.base.MXNetError, ValueError):
            return {}
    if arguments is None:
        return {}
    names = (*output.list_arguments(), *output.list_auxiliary_states())
    return {**dict(zip(names, (*arguments, *auxiliaries))), OUTPUT: outputs[0]}
