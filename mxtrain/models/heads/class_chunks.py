"""A head whose classes are in chunks: parameters of their own in the place of a net's last Dense layer.

Owns the layer and putting it into a net, which then answers with what the head takes, its features. The softmax over
all chunks is `chunked_loss.py`'s.
"""

from __future__ import annotations

import warnings
from typing import Any, Protocol, Sequence

from mxtrain.core.errors import UsageError
from mxtrain.models.analysis import shapes
from mxtrain.models.heads import last_layer
from mxtrain.models.heads.chunked_head import Chunk
from mxtrain.models.heads.last_layer import Purpose
from mxtrain.models.parameters import weights
from mxtrain.runtime import mx
from mxtrain.runtime.types import Block

FLAG = "--head-chunk"
FEATURES = "features"
PURPOSE = Purpose(FLAG, f"give another --model, or leave {FLAG} out")


class ClassChunk(mx.gluon.HybridBlock):
    """The weights of some classes, and their biases where the head has some; nothing calls it."""

    def __init__(self, prefix: str, shape: tuple[int, int], layer: Any, has_biases: bool):
        super().__init__(prefix=prefix)
        settings = {"dtype": layer.weight.dtype}
        self.weight = self.params.get("weight", shape=shape, init=layer.weight.init, **settings)
        self.bias = self.params.get("bias", shape=shape[:1], init="zeros", **settings) if has_biases else None

    @property
    def parameters(self) -> list[Any]:
        """Its parameters: weights, and biases if it has some."""
        return [self.weight] if self.bias is None else [self.weight, self.bias]


class Lender(Protocol):
    """The lender of a head's weights: their owners."""

    def pull(self, chunk: int) -> Chunk:
        """Return the weights of a chunk."""
        ...


class ChunkedHead(mx.gluon.HybridBlock):
    """The layer in the place of a Dense `layer`: it answers with what that would take, `width` numbers a sample."""

    def __init__(self, layer: Any, rows: int, width: int, has_biases: bool):
        super().__init__(prefix=layer.prefix)
        num_classes = layer._units
        self._flatten = layer._flatten
        self.lengths = [min(rows, num_classes - first) for first in range(0, num_classes, rows)]
        self.chunks: Sequence[ClassChunk] = [
            ClassChunk(f"{layer.prefix}chunk{number}_", (length, width), layer, has_biases)
            for number, length in enumerate(self.lengths)
        ]
        self.lender: Lender | None = None  # of weights that the parameters do not hold
        for number, chunk in enumerate(self.chunks):
            self.register_child(chunk, str(number))

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.Flatten(x, name=FEATURES) if self._flatten else F.identity(x, name=FEATURES)


def put(
    net: Block, name: str, num_classes: int, rows: int, input_shape: tuple[int, ...], is_of_cosines: bool
) -> None:
    """Put a head in chunks of `rows` classes in the place of the last Dense layer of a net.

    Args:
        net: what `--model name` has built, not initialised.
        name: that of --model.
        num_classes: how many outputs the layer has.
        rows: how many classes a chunk has, but the last.
        input_shape: the shape of one sample.
        is_of_cosines: whether the head has no biases, whatever the layer has.
    """
    # Gluon warns of parameters that are not in the graph, as none of the chunks is.
    warnings.filterwarnings("ignore", r"Parameter \S*_chunk\d+_(weight|bias)\b")
    layer = last_layer.find(net, name, num_classes, PURPOSE)
    width = _width(net, name, layer, input_shape)
    has_biases = layer.bias is not None and not is_of_cosines
    last_layer.replace(net, name, layer, ChunkedHead(layer, rows, width, has_biases), FEATURES, PURPOSE)


def head_of(net: Any) -> ChunkedHead:
    """Return the head in chunks of a net, or of a function that has the net as its `block`."""
    return next(weights.layers(net if isinstance(net, mx.gluon.Block) else net.block, ChunkedHead))


def _width(net: Block, name: str, layer: Any, input_shape: tuple[int, ...]) -> int:
    """Return how many features the layer takes, as it says itself or as the net's graph does."""
    if layer._in_units:
        return int(layer._in_units)
    try:
        known = shapes.of_variables(net(mx.sym.var("data")), (1, *input_shape))
    except Exception:  # whatever a net raises that is no graph
        known = {}
    if layer.weight.name not in known:
        raise UsageError(
            f"--model {name}: {FLAG} needs to know how many features its last Dense layer takes, and the net is no "
            f"graph that tells; give that layer its in_units, or leave {FLAG} out"
        )
    return int(known[layer.weight.name][1])
