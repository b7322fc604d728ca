"""GPT: a decoder-only transformer, by the sizes of `config/components/nets.py` (docs/adr/0024).

As GPT-2: norms before each half of a layer, learnt positions, GELU, and its first weights; but the scores have a
matrix of their own, so that a net can be cut for --remat. An input token that ends a document begins the next one: a
token sees those of its own document from there on, and its position counts from there. So a document that begins in a
window is computed as if it stood alone.
"""

from __future__ import annotations

import math
from typing import Any

from mxtrain.runtime import mx
from mxtrain.runtime.types import Block, NDArray

nn = mx.gluon.nn
HIDDEN = 1e30  # less in a score
SPREAD = 0.02  # of first weights


class Gpt(mx.gluon.HybridBlock):
    """A net from (batch, length) tokens to (batch, length, vocabulary) scores for the token that follows each.

    Inside, arrays are (length, batch, width), which MXNet's operators for attention want.
    """

    def __init__(
        self,
        vocabulary: int,
        length: int,
        end_token: int,
        layers: int = 6,
        heads: int = 6,
        width: int = 384,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.end_token, self.heads = end_token, heads
        with self.name_scope():
            self.tokens = nn.Embedding(vocabulary, width, weight_initializer=mx.init.Normal(SPREAD))
            self.positions = nn.Embedding(length, width, weight_initializer=mx.init.Normal(SPREAD))
            self.dropout = _dropping(dropout)
            self.layers = nn.HybridSequential()
            for _ in range(layers):
                self.layers.add(Layer(heads, width, dropout, SPREAD / math.sqrt(2 * layers)))
            self.norm = nn.LayerNorm(in_channels=width)
            self.scores = _dense(vocabulary, width, use_bias=False)

    def hybrid_forward(self, F: Any, tokens: Any) -> Any:
        seen = self.seen(F, tokens)
        hidden = ((seen - 1) * HIDDEN).expand_dims(1)  # once, and not for each layer
        hidden = F.broadcast_axis(hidden, axis=1, size=self.heads).reshape((-3, 0, 0))
        x = self.tokens(tokens) + self.positions(seen.sum(axis=2) - 1)
        x = self.dropout(x.transpose((1, 0, 2)))
        for layer in self.layers:
            x = layer(x, hidden)
        return self.scores(self.norm(x).transpose((1, 0, 2)))

    def seen(self, F: Any, tokens: Any) -> Any:
        """Return for each token, and each other one, 1 where it sees that one, else 0."""
        documents = F.cumsum(tokens == self.end_token, axis=1)
        places = F.cumsum(F.ones_like(tokens), axis=1)
        own = F.broadcast_equal(documents.expand_dims(2), documents.expand_dims(1))
        return own * F.broadcast_greater_equal(places.expand_dims(2), places.expand_dims(1))


class Layer(mx.gluon.HybridBlock):
    """Attention and a dense net, each added to what comes in."""

    def __init__(self, heads: int, width: int, dropout: float, spread: float):
        super().__init__()
        with self.name_scope():
            self.attention_norm = nn.LayerNorm(in_channels=width)
            self.attention = Attention(heads, width, dropout, spread)
            self.dense_norm = nn.LayerNorm(in_channels=width)
            self.widen = _dense(4 * width, width)
            self.activation = nn.GELU()
            self.narrow = _dense(width, 4 * width, spread)
            self.dropout = _dropping(dropout)

    def hybrid_forward(self, F: Any, x: Any, hidden: Any) -> Any:
        x = x + self.dropout(self.attention(self.attention_norm(x), hidden))
        return x + self.dropout(self.dense(self.dense_norm(x)))

    def dense(self, x: NDArray) -> NDArray:
        """Return what the dense half of the layer makes of normed numbers."""
        return self.narrow(self.activation(self.widen(x)))


class Attention(mx.gluon.HybridBlock):
    """Attention of each token to those that it sees; of a head, query, key and value lie side by side."""

    def __init__(self, heads: int, width: int, dropout: float, spread: float):
        super().__init__()
        self.heads = heads
        with self.name_scope():
            self.project = _dense(3 * width, width)
            self.dropout = _dropping(dropout)
            self.join = _dense(width, width, spread)

    def hybrid_forward(self, F: Any, x: Any, hidden: Any) -> Any:
        projected = self.project(x)
        scores = F.contrib.interleaved_matmul_selfatt_qk(projected, heads=self.heads)
        shares = self.dropout(F.softmax(scores + hidden, axis=-1))
        return self.join(F.contrib.interleaved_matmul_selfatt_valatt(projected, shares, heads=self.heads))


def _dropping(rate: float) -> Block:
    """Return a layer that drops numbers; one without a rate would copy them all."""
    layer = nn.HybridSequential()
    if rate:
        layer.add(nn.Dropout(rate))
    return layer


def _dense(outputs: int, inputs: int, spread: float = SPREAD, use_bias: bool = True) -> Block:
    initializer = mx.init.Normal(spread)
    return nn.Dense(
        outputs, in_units=inputs, flatten=False, use_bias=use_bias, weight_initializer=initializer
    )
