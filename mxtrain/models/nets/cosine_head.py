"""A head that answers with cosines: a net's last Dense layer, for the losses of `--loss` that set margins of angles.

Owns the layer and putting it into a net. A margin is the loss's (`models/losses.py`): what the net computes is the same
whether it trains, is judged or is exported.
"""

from __future__ import annotations

from typing import Any

from mxtrain.config.program_objects import ProgramObjects
from mxtrain.core.errors import UsageError
from mxtrain.models.autocast.operator_times import WIDE
from mxtrain.models.margins import SMALLEST_SQUARE
from mxtrain.models.nets import zoo
from mxtrain.models.parameters import weights
from mxtrain.runtime import mx
from mxtrain.runtime.types import Block

PRODUCT = "product"


class CosineHead(mx.gluon.nn.Dense):
    """The cosine between features and each class's weights, times a scale; the parameter is the Dense layer's own."""

    def __init__(self, layer: Block, scale: float):
        super().__init__(
            layer._units,
            use_bias=False,
            flatten=layer._flatten,
            dtype=layer.weight.dtype,
            in_units=layer._in_units,
            prefix=layer.prefix,
            params=layer.params,
        )
        self.scale = scale

    def hybrid_forward(self, F: Any, x: Any, weight: Any, bias: Any = None) -> Any:
        x = F.Flatten(x) if self._flatten else x
        unit = F.broadcast_div(x, F.sqrt(F.sum(F.square(x), axis=-1, keepdims=True) + SMALLEST_SQUARE))
        # Weights are divided by behind the product, from which alone MXNet infers their shape.
        with mx.AttrScope(**{WIDE: "1"}):  # times the scale, what bfloat16 rounds off would be several units
            product = F.FullyConnected(
                unit, weight, no_bias=True, num_hidden=self._units, flatten=self._flatten, name=PRODUCT
            )
        lengths = F.sqrt(F.sum(F.square(weight), axis=1) + SMALLEST_SQUARE)
        return F.broadcast_div(product, F.expand_dims(lengths, axis=0)) * self.scale


def put(net: Block, name: str, num_classes: int, scale: float) -> None:
    """Put a head of cosines in the place of the last Dense layer of the net, which `--model name` has built.

    UsageError for a net that does not end in one.
    """
    layers = [layer for layer in weights.layers(net, mx.gluon.nn.Dense) if layer._units == num_classes]
    if not layers:
        raise _other_end(name, "it has no Dense layer of as many outputs as classes")
    if layers[-1].act is not None:
        raise _other_end(name, "its last Dense layer has an activation")
    head = CosineHead(layers[-1], scale)
    _replace(net, layers[-1], head)
    if not _is_last(net, head):
        raise _other_end(name, f"{head.name} is not the last that it computes")


def refuse_net_object(loss: str, model: str, objects: ProgramObjects) -> None:
    """Refuse a net that a Python program gave, which is trained as it is; UsageError."""
    if zoo.net_object(model, objects) is not None:
        raise UsageError(
            f"--loss {loss} puts a head of its own into the net that --model builds, and a net that is given stays as "
            "it is; give a function that builds it, or another loss"
        )


def _replace(block: Block, layer: Block, other: Block) -> None:
    """Put another layer in each place of this one; GoogLeNet's is in two."""
    for key, child in block._children.items():
        if child is layer:
            block._children[key] = other
        else:
            _replace(child, layer, other)
    for attribute in [attribute for attribute, value in vars(block).items() if value is layer]:
        setattr(block, attribute, other)


def _is_last(net: Block, head: CosineHead) -> bool:
    """Return whether the net's graph ends in the head; a net that runs imperatively has none, and is believed."""
    try:
        output = net(mx.sym.var("data"))
    except Exception:  # whatever a net raises that is no graph
        return True
    if not isinstance(output, mx.sym.Symbol) or not output.name.startswith(head.prefix):
        return False
    return f"{head.prefix}{PRODUCT}_output" in output.get_internals().list_outputs()


def _other_end(name: str, why: str) -> UsageError:
    return UsageError(
        f"--model {name}: a --loss of angles (arcface, cosface) needs a net that ends in a Dense layer, and {why}; "
        "give another --model, or --loss cross_entropy"
    )
