"""CenterNets as nets: GluonCV's layers, with one answer (pictures, cells, classes + 4).

A cell's numbers are the logit of each class's heat, then the width and height of a box, and the shift of its centre.
Parameters are where GluonCV has them.
"""

from __future__ import annotations

from typing import Any

from mxtrain import runtime
from mxtrain.config.components.zoo import detector_names
from mxtrain.runtime import mx
from mxtrain.runtime.types import Block

nn = mx.gluon.nn
BIAS = -2.19  # of heat, so that it begins near 0.1


class CenterNet(mx.gluon.HybridBlock):
    """A net that ends in a map of a quarter of the picture's sides, with a head for heat, for sizes and for shifts."""

    def __init__(self, base_network: Block, heads: Any, **kwargs: Any):
        super().__init__(**kwargs)
        self.base_network, self.heads = base_network, heads

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        features = self.base_network(x)
        rows = [F.reshape(F.transpose(head(features), (0, 2, 3, 1)), (0, -3, -2)) for head in self.heads]
        return F.concat(*rows, dim=2)


def build(name: str, num_classes: int) -> Block:
    """Return the CenterNet called `name`, not initialised."""
    module, function = detector_names.function_of(name)
    with mx.name.NameManager():  # so that names do not depend on what has been built before
        theirs = getattr(runtime.load_gluoncv_module(module), function)(pretrained_base=False)
        heads = nn.HybridSequential(prefix="")
        heads.add(_heat_head(theirs.heads[0], num_classes), *list(theirs.heads)[1:])
        net = CenterNet(theirs.base_network, heads, prefix="centernet0_")
    for (
        parameter
    ) in net.collect_params().values():  # which GluonCV has initialised, without --init and --seed
        parameter._data, parameter._grad, parameter._deferred_init = None, None, ()
    return net


def _heat_head(theirs: Any, num_classes: int) -> Block:
    """Return GluonCV's head of heat for so many classes."""
    head = nn.HybridSequential(prefix="")
    layers = list(theirs)
    last = nn.Conv2D(
        num_classes,
        1,
        weight_initializer=mx.init.Xavier(),
        bias_initializer=mx.init.Constant(BIAS),
        prefix=layers[-1].prefix,
    )
    head.add(*layers[:-1], last)
    return head
