"""The nets that mxtrain's `--model` does not have: a GPT, an LSTM, and a MobileNetV3 that drops nothing.

A net of tokens gives a row of scores for each token, so that to a step every token is a sample.
"""

from __future__ import annotations

from typing import Any

from benchmarks.step.nets import Gpt, Lstm, Net
from mxtrain.models.parameters import weights
from mxtrain.runtime import gluoncv, mx

nn = mx.gluon.nn
HIDDEN = -1e30  # added to a score


def mobilenetv3(num_classes: int) -> Any:
    """Return GluonCV's net without its dropout, whose masks PyTorch would draw otherwise."""
    net = gluoncv.model_zoo.get_model("mobilenetv3_large", classes=num_classes)
    for layer in weights.layers(net, nn.Dropout):
        layer._rate = 0
    return net


def of_tokens(net: Net) -> Any:
    """Return a net for (batch, length) tokens with (batch x length, vocabulary) scores."""
    numbers = NUMBERS[net.model]
    return (Transformer if isinstance(numbers, Gpt) else Recurrent)(net.vocabulary, net.size, *numbers)


NUMBERS: dict[str, Gpt | Lstm] = {
    "gpt": Gpt(),
    "lstm": Lstm(),
    "small_gpt": Gpt(2, 2, 16),
    "small_lstm": Lstm(2, 8),
}


class Transformer(nn.HybridBlock):  # type: ignore[misc]
    """A GPT with learnt positions and norms before each half of a layer.

    Inside, arrays are (length, batch, width), which MXNet's operators for attention want.
    """

    def __init__(self, vocabulary: int, length: int, layers: int, heads: int, width: int):
        super().__init__()
        with self.name_scope():
            self.tokens = nn.Embedding(vocabulary, width)
            self.positions = self.params.get("positions", shape=(length, 1, width), init=mx.init.Normal(0.02))
            self.layers = nn.HybridSequential()
            for _ in range(layers):
                self.layers.add(Layer(heads, width))
            self.norm = nn.LayerNorm(in_channels=width)
            self.scores = nn.Dense(vocabulary, flatten=False, in_units=width, use_bias=False)

    def hybrid_forward(self, F: Any, tokens: Any, positions: Any) -> Any:
        embedded = F.broadcast_add(self.tokens(tokens.transpose()), positions)
        found = self.norm(self.layers(embedded)).transpose((1, 0, 2))
        return self.scores(found.reshape((-3, 0)))


class Layer(nn.HybridBlock):  # type: ignore[misc]
    def __init__(self, heads: int, width: int):
        super().__init__()
        with self.name_scope():
            self.attention_norm = nn.LayerNorm(in_channels=width)
            self.attention = Attention(heads, width)
            self.dense_norm = nn.LayerNorm(in_channels=width)
            self.widen = nn.Dense(4 * width, flatten=False, in_units=width)
            self.activation = nn.GELU()
            self.narrow = nn.Dense(width, flatten=False, in_units=4 * width)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        x = x + self.attention(self.attention_norm(x))
        return x + self.narrow(self.activation(self.widen(self.dense_norm(x))))


class Attention(nn.HybridBlock):  # type: ignore[misc]
    """Attention of each token to itself and those before it; of a head, query, key and value lie side by side."""

    def __init__(self, heads: int, width: int):
        super().__init__()
        self.heads = heads
        with self.name_scope():
            self.project = nn.Dense(3 * width, flatten=False, in_units=width)
            self.join = nn.Dense(width, flatten=False, in_units=width)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        projected = self.project(x)
        scores = F.contrib.interleaved_matmul_selfatt_qk(projected, heads=self.heads)
        places = F.contrib.arange_like(x, axis=0)
        later = F.broadcast_greater(places.expand_dims(0), places.expand_dims(1)) * HIDDEN
        attended = F.softmax(F.broadcast_add(scores, later.expand_dims(0)), axis=-1)
        return self.join(F.contrib.interleaved_matmul_selfatt_valatt(projected, attended, heads=self.heads))


class Recurrent(nn.HybridBlock):  # type: ignore[misc]
    """An LSTM of several layers over embedded tokens."""

    def __init__(self, vocabulary: int, length: int, layers: int, width: int):
        super().__init__()
        with self.name_scope():
            self.tokens = nn.Embedding(vocabulary, width)
            self.lstm = mx.gluon.rnn.LSTM(width, layers, input_size=width)
            self.scores = nn.Dense(vocabulary, flatten=False, in_units=width)

    def hybrid_forward(self, F: Any, tokens: Any) -> Any:
        found = self.lstm(self.tokens(tokens.transpose())).transpose((1, 0, 2))
        return self.scores(found.reshape((-3, 0)))  # what MXNet reshapes it copies: not the scores
