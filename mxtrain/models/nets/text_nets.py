"""Nets of texts: `text_cnn`, `bilstm` and `transformer`, with numbers as in `bilstm:hidden=256,layers=2`.

A net takes tokens and their mask, (samples, length) both, where 1 is a token and 0 lies behind a text's end. It gives a
score for each class: for the text, (samples, classes), or for each of its tokens, (samples, length, classes). What lies
behind the end changes no answer.
"""

from __future__ import annotations

import math
from typing import Any

from mxtrain.models.nets.gpt import HIDDEN, SPREAD, Layer
from mxtrain.runtime import mx
from mxtrain.runtime.types import Block

nn = mx.gluon.nn


def text_cnn(
    vocabulary: int, num_classes: int, length: int, of_tokens: bool, dropout: float, **numbers: int
) -> Block:
    """Return convolutions over the tokens, for the classes of texts or of their tokens."""
    return Classifier(Convolutions(vocabulary, dropout, **numbers), num_classes, dropout, of_tokens)


def bilstm(
    vocabulary: int, num_classes: int, length: int, of_tokens: bool, dropout: float, **numbers: int
) -> Block:
    """Return an LSTM in both directions, for the classes of texts or of their tokens."""
    return Classifier(Recurrences(vocabulary, dropout, **numbers), num_classes, dropout, of_tokens)


def transformer(
    vocabulary: int, num_classes: int, length: int, of_tokens: bool, dropout: float, **numbers: int
) -> Block:
    """Return an encoder of texts of at most `length` tokens, for their classes or those of their tokens."""
    return Classifier(Transformer(vocabulary, length, dropout, **numbers), num_classes, dropout, of_tokens)


class Classifier(mx.gluon.HybridBlock):
    """A body, which finds something at each token, and scores: of what it finds, or of its mean and its most."""

    def __init__(self, body: Block, num_classes: int, dropout: float, of_tokens: bool):
        super().__init__(prefix="text_")
        self._of_tokens = of_tokens
        with self.name_scope():
            self.body = body
            self.dropout = nn.Dropout(dropout)
            self.scores = nn.Dense(num_classes, flatten=False)

    def hybrid_forward(self, F: Any, tokens: Any, mask: Any) -> Any:
        found = self.body(tokens, mask)
        if not self._of_tokens:
            found = _pooled(F, found, mask.expand_dims(2))
        return self.scores(self.dropout(found))


def _pooled(F: Any, features: Any, mask: Any) -> Any:
    mean = F.broadcast_div(F.broadcast_mul(features, mask).sum(axis=1), F.maximum(mask.sum(axis=1), 1))
    most = F.broadcast_add(features, ((mask > 0.5) - 1) * HIDDEN).max(axis=1)
    return F.concat(mean, most, dim=1)


class Convolutions(mx.gluon.HybridBlock):
    """Layers of convolutions that look at 3, 5 and 7 tokens, side by side (after Kim, 2014)."""

    def __init__(self, vocabulary: int, dropout: float, width: int, layers: int):
        super().__init__(prefix="convolutions_")
        with self.name_scope():
            self.tokens = nn.Embedding(vocabulary, width, weight_initializer=mx.init.Normal(0.1))
            self.dropout = nn.Dropout(dropout)
            self.layers = nn.HybridSequential(prefix="")
            for _ in range(layers):
                beside = mx.gluon.contrib.nn.HybridConcurrent(axis=1)
                beside.add(*(nn.Conv1D(width, seen, padding=seen // 2) for seen in (3, 5, 7)))
                self.layers.add(beside)

    def hybrid_forward(self, F: Any, tokens: Any, mask: Any) -> Any:
        mask = mask.expand_dims(1)
        steps = self.dropout(self.tokens(tokens)).transpose((0, 2, 1))
        for layer in self.layers:
            steps = layer(F.broadcast_mul(steps, mask)).relu()
        return steps.transpose((0, 2, 1))


class Recurrences(mx.gluon.HybridBlock):
    """LSTM layers in both directions. On CPUs MXNet's own of two directions would begin behind a text's end."""

    def __init__(self, vocabulary: int, dropout: float, width: int, hidden: int, layers: int):
        super().__init__(prefix="recurrences_")
        with self.name_scope():
            self.tokens = nn.Embedding(vocabulary, width, weight_initializer=mx.init.Normal(0.1))
            self.dropout = nn.Dropout(dropout)
            self.onwards, self.backwards = (nn.HybridSequential(prefix=f"{name}_") for name in ("on", "back"))
            for _ in range(layers):
                self.onwards.add(mx.gluon.rnn.LSTM(hidden))
                self.backwards.add(mx.gluon.rnn.LSTM(hidden))

    def hybrid_forward(self, F: Any, tokens: Any, mask: Any) -> Any:
        lengths = mask.sum(axis=1)

        def reversed_(steps: Any) -> Any:
            return F.SequenceReverse(steps, lengths, use_sequence_length=True)

        steps = self.dropout(self.tokens(tokens)).transpose((1, 0, 2))
        for on, back in zip(self.onwards, self.backwards):
            steps = F.concat(on(steps), reversed_(back(reversed_(steps))), dim=2)
        return steps.transpose((1, 0, 2))


class Transformer(mx.gluon.HybridBlock):
    """Layers of attention of each token to all of its text, with learnt positions, as in BERT; norms as in GPT-2."""

    def __init__(self, vocabulary: int, length: int, dropout: float, layers: int, heads: int, width: int):
        super().__init__(prefix="transformer_")
        self._heads = heads
        with self.name_scope():
            self.tokens = nn.Embedding(vocabulary, width, weight_initializer=mx.init.Normal(SPREAD))
            self.positions = nn.Embedding(length, width, weight_initializer=mx.init.Normal(SPREAD))
            self.dropout = nn.Dropout(dropout)
            self.layers = nn.HybridSequential(prefix="")
            for _ in range(layers):
                self.layers.add(Layer(heads, width, dropout, SPREAD / math.sqrt(2 * layers)))
            self.norm = nn.LayerNorm(in_channels=width)

    def hybrid_forward(self, F: Any, tokens: Any, mask: Any) -> Any:
        # Of each text and head the same for all tokens, as `Layer` takes it. A comparison has no gradient, for which
        # our attention asks (models/rewrites/own/attentions.py).
        hidden = ((mask > 0.5) - 1) * HIDDEN
        hidden = F.broadcast_add(F.zeros_like(mask).expand_dims(2), hidden.expand_dims(1))
        hidden = F.broadcast_axis(hidden.expand_dims(1), axis=1, size=self._heads).reshape((-3, 0, 0))
        places = F.cumsum(F.ones_like(tokens), axis=1) - 1
        x = self.dropout(self.tokens(tokens) + self.positions(places)).transpose((1, 0, 2))
        for layer in self.layers:
            x = layer(x, hidden)
        return self.norm(x).transpose((1, 0, 2))
