"""The nets that mxtrain's `--model` does not have: a GPT, an LSTM, a ViT, and others that drop nothing.

A net of tokens gives a row of scores for each token, so that to a step every token is a sample.
"""

from __future__ import annotations

from typing import Any

from benchmarks.step.nets import Gpt, Lstm, Net, Text, Vit
from mxtrain.models.nets import text_nets
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


def vit(num_classes: int) -> Any:
    return Pictures(num_classes, 224, *Vit())


def small_vit(num_classes: int) -> Any:
    return Pictures(num_classes, 32, *Vit(2, 2, 16, 8))


def of_tokens(net: Net) -> Any:
    """Return a net for (batch, length) tokens with (samples, classes) scores, a token or a text being a sample."""
    numbers = NUMBERS[net.model]
    if isinstance(numbers, Text):
        return Texts(net.vocabulary, net.size, net.classes, numbers)
    return (Transformer if isinstance(numbers, Gpt) else Recurrent)(net.vocabulary, net.size, *numbers)


NUMBERS: dict[str, Gpt | Lstm | Text] = {
    "gpt": Gpt(),
    "lstm": Lstm(),
    "text": Text(),
    "small_gpt": Gpt(2, 2, 16),
    "small_lstm": Lstm(2, 8),
    "small_text": Text(2, 2, 8),
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
    def __init__(self, heads: int, width: int, sees_all: bool = False):
        super().__init__()
        with self.name_scope():
            self.attention_norm = nn.LayerNorm(in_channels=width)
            self.attention = Attention(heads, width, sees_all)
            self.dense_norm = nn.LayerNorm(in_channels=width)
            self.widen = nn.Dense(4 * width, flatten=False, in_units=width)
            self.activation = nn.GELU()
            self.narrow = nn.Dense(width, flatten=False, in_units=4 * width)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        x = x + self.attention(self.attention_norm(x))
        return x + self.narrow(self.activation(self.widen(self.dense_norm(x))))


class Attention(nn.HybridBlock):  # type: ignore[misc]
    """Attention of a token to those up to itself, or to all; of a head, query, key and value lie side by side."""

    def __init__(self, heads: int, width: int, sees_all: bool):
        super().__init__()
        self.heads, self.sees_all = heads, sees_all
        with self.name_scope():
            self.project = nn.Dense(3 * width, flatten=False, in_units=width)
            self.join = nn.Dense(width, flatten=False, in_units=width)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        projected = self.project(x)
        scores = F.contrib.interleaved_matmul_selfatt_qk(projected, heads=self.heads)
        if not self.sees_all:
            places = F.contrib.arange_like(x, axis=0)
            later = F.broadcast_greater(places.expand_dims(0), places.expand_dims(1)) * HIDDEN
            scores = F.broadcast_add(scores, later.expand_dims(0))
        attended = F.softmax(scores, axis=-1)
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


class Pictures(nn.HybridBlock):  # type: ignore[misc]
    """A ViT: patches of a picture are tokens, behind one more that becomes the picture's features."""

    def __init__(self, num_classes: int, size: int, layers: int, heads: int, width: int, patch: int):
        super().__init__()
        with self.name_scope():
            spread = mx.init.Normal(0.02)
            self.first = self.params.get("first", shape=(1, 1, width), init=spread)
            self.positions = self.params.get(
                "positions", shape=((size // patch) ** 2 + 1, 1, width), init=spread
            )
            self.patches = nn.Conv2D(width, patch, patch, in_channels=3, weight_initializer=spread)
            self.layers = nn.HybridSequential()
            for _ in range(layers):
                self.layers.add(Layer(heads, width, sees_all=True))
            self.norm = nn.LayerNorm(in_channels=width)
            self.scores = nn.Dense(num_classes, in_units=width)

    def hybrid_forward(self, F: Any, pictures: Any, first: Any, positions: Any) -> Any:
        patches = self.patches(pictures).reshape((0, 0, -1)).transpose((2, 0, 1))
        firsts = F.broadcast_like(first, patches, lhs_axes=(1,), rhs_axes=(1,))
        tokens = F.broadcast_add(F.concat(firsts, patches, dim=0), positions)
        return self.scores(self.norm(self.layers(tokens).slice_axis(axis=0, begin=0, end=1).reshape((-3, 0))))


class Texts(nn.HybridBlock):  # type: ignore[misc]
    """mxtrain's own encoder of texts, which end before the first token that is 0."""

    def __init__(self, vocabulary: int, length: int, classes: int, numbers: Text):
        super().__init__()
        with self.name_scope():
            self.classifier = text_nets.transformer(
                vocabulary, classes, length, of_tokens=False, dropout=0.0, **numbers._asdict()
            )

    def hybrid_forward(self, F: Any, tokens: Any) -> Any:
        return self.classifier(tokens, tokens > 0)
