"""The last Dense layer of a net that classifies: found, and another layer put in its place."""

from __future__ import annotations

from typing import Any, NamedTuple

from mxtrain.config.program_objects import ProgramObjects
from mxtrain.core.errors import UsageError
from mxtrain.models.nets import zoo
from mxtrain.models.parameters import weights
from mxtrain.runtime import mx
from mxtrain.runtime.types import Block


class Purpose(NamedTuple):
    """The reason why a net has to end in a Dense layer, in words for messages."""

    needs: str  # as in `--head-chunk 1000 needs`
    way_out: str  # what to give instead


def find(net: Block, name: str, num_classes: int, purpose: Purpose) -> Any:
    """Return the last Dense layer of the net, which `--model name` has built; UsageError where that is no head."""
    layers = [layer for layer in weights.layers(net, mx.gluon.nn.Dense) if layer._units == num_classes]
    if not layers:
        raise _other_end(name, "it has no Dense layer of as many outputs as classes", purpose)
    if layers[-1].act is not None:
        raise _other_end(name, "its last Dense layer has an activation", purpose)
    return layers[-1]


def replace(net: Block, name: str, layer: Block, other: Block, output: str, purpose: Purpose) -> None:
    """Put another layer in each place of this one, GoogLeNet's is in two; UsageError where it is not the net's last.

    `output` is how the other layer calls the operator that tells it in a graph.
    """
    _replace(net, layer, other)
    if not _is_last(net, other, output):
        raise _other_end(name, f"{other.name} is not the last that it computes", purpose)


def refuse_net_object(needs: str, model: str, objects: ProgramObjects) -> None:
    """Refuse a net that a Python program gave, which is trained as it is; UsageError."""
    if zoo.net_object(model, objects) is not None:
        raise UsageError(
            f"{needs} puts a head of its own into the net that --model builds, and a net that is given stays as "
            "it is; give a function that builds it, or leave it out"
        )


def _replace(block: Block, layer: Block, other: Block) -> None:
    for key, child in block._children.items():
        if child is layer:
            block._children[key] = other
        else:
            _replace(child, layer, other)
    for attribute in [attribute for attribute, value in vars(block).items() if value is layer]:
        setattr(block, attribute, other)


def _is_last(net: Block, head: Block, output: str) -> bool:
    """Return whether the net's graph ends in the head; a net that runs imperatively has none, and is believed."""
    try:
        answer = net(mx.sym.var("data"))
    except Exception:  # whatever a net raises that is no graph
        return True
    if not isinstance(answer, mx.sym.Symbol) or not answer.name.startswith(head.prefix):
        return False
    return f"{head.prefix}{output}_output" in answer.get_internals().list_outputs()


def _other_end(name: str, why: str, purpose: Purpose) -> UsageError:
    return UsageError(
        f"--model {name}: {purpose.needs} needs a net that ends in a Dense layer, and {why}; {purpose.way_out}"
    )
