"""A head that answers with cosines: a net's last Dense layer, for the losses of `--loss` that set margins of angles.

Owns the layer. A margin is the loss's (`models/losses.py`): what the net computes is the same
whether it trains, is judged or is exported.
"""

from __future__ import annotations

from typing import Any

from mxtrain.models.autocast.operator_times import WIDE
from mxtrain.models.heads import last_layer
from mxtrain.models.heads.last_layer import Purpose
from mxtrain.models.heads.margins import SMALLEST_SQUARE
from mxtrain.runtime import mx
from mxtrain.runtime.types import Block

PRODUCT = "product"
PURPOSE = Purpose("a --loss of angles (arcface, cosface)", "give another --model, or --loss cross_entropy")


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
    layer = last_layer.find(net, name, num_classes, PURPOSE)
    last_layer.replace(net, name, layer, CosineHead(layer, scale), PRODUCT, PURPOSE)
