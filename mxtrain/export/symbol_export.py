"""A net as plain MXNet loads it: `net-symbol.json` and `net-0000.params`, for Module, SymbolBlock and the C API."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from mxtrain.core import params_file
from mxtrain.data.fields import Array
from mxtrain.export.comparison import Answer
from mxtrain.export.inference_graph import InferenceGraph
from mxtrain.export.real_samples import Batch
from mxtrain.runtime import mx

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block

PREFIX, EPOCH = "net", 0  # as mx.model.load_checkpoint takes them
SYMBOL, PARAMS = f"{PREFIX}-symbol.json", f"{PREFIX}-{EPOCH:04d}.params"
TOLERANCE = 1e-6


def write(graph: InferenceGraph, folder: Path) -> list[str]:
    """Write the files into `folder` and return their names."""
    (folder / SYMBOL).write_text(graph.symbol.tojson(), encoding="utf-8")
    named = {f"arg:{name}": array.asnumpy() for name, array in graph.arguments.items()}
    named.update({f"aux:{name}": array.asnumpy() for name, array in graph.auxiliaries.items()})
    with (folder / PARAMS).open("wb") as file:  # mx.nd.save says nothing of a full disk
        for chunk in params_file.encoded(named):
            file.write(chunk)
    return [SYMBOL, PARAMS]


def loaded(graph: InferenceGraph, folder: Path) -> Block:
    """Return the net in these files as a SymbolBlock, compiled; `graph` tells its inputs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MXNet's, that it does not know the input's type before there is one
        block: Block = mx.gluon.SymbolBlock.imports(
            str(folder / SYMBOL), list(graph.inputs), str(folder / PARAMS)
        )
    block.hybridize()
    return block


def answers(graph: InferenceGraph, folder: Path) -> Answer:
    """Return the function by which the net in these files answers, loaded anew."""
    block = loaded(graph, folder)

    def answer(batch: Batch) -> list[Array]:
        output = block(*(mx.nd.array(each, dtype=each.dtype) for each in batch.values()))
        return [each.asnumpy() for each in (output if isinstance(output, (list, tuple)) else [output])]

    return answer
