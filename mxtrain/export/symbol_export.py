"""A net as plain MXNet loads it: `net-symbol.json` and `net-0000.params`, for Module, SymbolBlock and the C API."""

from __future__ import annotations

import functools
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Mapping

from mxtrain.config.checks.hold_checks import FLAG
from mxtrain.core import params_file
from mxtrain.core.params_file import ArraysOneByOne
from mxtrain.data.fields import Array
from mxtrain.export.comparison import Answer
from mxtrain.export.inference_graph import InferenceGraph
from mxtrain.export.real_samples import Batch
from mxtrain.models import remat
from mxtrain.runtime import mx
from mxtrain.train.held import trained_net
from mxtrain.train.held.held_net import HeldNet

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block, NDArray

PREFIX, EPOCH = "net", 0  # as mx.model.load_checkpoint takes them
SYMBOL, PARAMS = f"{PREFIX}-symbol.json", f"{PREFIX}-{EPOCH:04d}.params"
TOLERANCE = 1e-6


def write(graph: InferenceGraph, folder: Path) -> list[str]:
    """Write the files into `folder` and return their names."""
    (folder / SYMBOL).write_text(graph.symbol.tojson(), encoding="utf-8")
    arrays = params_file.joined(graph.arguments, graph.auxiliaries)
    makers = {stored: functools.partial(_numbers, arrays, name) for name, stored in _names(graph).items()}
    with (folder / PARAMS).open("wb") as file:  # mx.nd.save says nothing of a full disk
        for chunk in params_file.encoded(ArraysOneByOne(makers)):
            file.write(chunk)
    return [SYMBOL, PARAMS]


def _names(graph: InferenceGraph) -> dict[str, str]:
    """Return what the file calls the weights, by their names in the graph."""
    kinds = (("arg", graph.arguments), ("aux", graph.auxiliaries))
    return {name: f"{kind}:{name}" for kind, arrays in kinds for name in arrays}


def _numbers(arrays: Mapping[str, NDArray], name: str) -> Array:
    return arrays[name].asnumpy()


def loaded(graph: InferenceGraph, folder: Path) -> Block:
    """Return the net in these files as a SymbolBlock, compiled; `graph` tells its inputs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MXNet's, that it does not know the input's type before there is one
        block: Block = mx.gluon.SymbolBlock.imports(
            str(folder / SYMBOL), list(graph.inputs), str(folder / PARAMS)
        )
    block.hybridize()
    return block


def held(graph: InferenceGraph, folder: Path) -> Block:
    """Return the net in these files, which reads the weights of one segment at a time."""
    symbol = mx.sym.load(str(folder / SYMBOL))
    ((name, shape),) = graph.inputs.items()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as above
        block = mx.gluon.SymbolBlock(symbol, [mx.sym.var(name)])
    arguments, _, auxiliaries = symbol.infer_shape(**graph.shapes_of(1))
    names = (*symbol.list_arguments(), *symbol.list_auxiliary_states())
    shapes = dict(zip(names, (*arguments, *auxiliaries)))
    for parameter in block.collect_params().values():
        parameter.shape = shapes[parameter.name]
    net = HeldNet(block, remat.cut(block, FLAG, graph.name, (1, *shape)))
    for parameter in net.held:
        parameter.initialize(ctx=mx.cpu())
    trained_net.lend(net, folder / PARAMS, _names(graph))
    return net


def answers(graph: InferenceGraph, folder: Path, is_held: bool = False) -> Answer:
    """Return the function by which the net in these files answers, loaded anew; one segment at a time if `is_held`."""
    block = held(graph, folder) if is_held else loaded(graph, folder)

    def answer(batch: Batch) -> list[Array]:
        output = block(*(mx.nd.array(each, dtype=each.dtype) for each in batch.values()))
        return [each.asnumpy() for each in (output if isinstance(output, (list, tuple)) else [output])]

    return answer
