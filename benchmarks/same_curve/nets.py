"""A small net with and without batch statistics and random masks, which depend on the micro-batches, and a table.

Their activation is smooth. ReLU has a kink: when a value passes it in one run and not in the other, the last bits that
another order of sums moves become a difference of gradients, which then grows from step to step. That is a property of
such nets, whatever computes them, and would hide how near sums are that are not exact.
"""

from __future__ import annotations

from typing import Any

from mxtrain.models import SparseEmbedding
from mxtrain.runtime import mx

nn = mx.gluon.nn


def plain(num_classes: int) -> Any:
    return _net(num_classes, batch_norm=False, dropout=False)


def with_dropout(num_classes: int) -> Any:
    return _net(num_classes, batch_norm=False, dropout=True)


def with_batch_norm(num_classes: int) -> Any:
    return _net(num_classes, batch_norm=True, dropout=False)


def with_both(num_classes: int) -> Any:
    return _net(num_classes, batch_norm=True, dropout=True)


def _net(num_classes: int, batch_norm: bool, dropout: bool) -> Any:
    net = nn.HybridSequential()
    with net.name_scope():
        for channels in (16, 32, 64):
            net.add(nn.Conv2D(channels, 3, strides=2, padding=1, use_bias=not batch_norm))
            if batch_norm:
                net.add(nn.BatchNorm())
            net.add(nn.Activation("tanh"))
            if dropout:
                net.add(nn.Dropout(0.2))
        net.add(nn.Flatten(), nn.Dense(num_classes))
    return net


class Looked(mx.gluon.Block):
    """Patches of 4 x 4 pixels are looked up in a table by their place and brightness."""

    NUM_PATCHES, NUM_LEVELS = 64, 16

    def __init__(self, num_classes: int):
        super().__init__()
        self.table = SparseEmbedding(self.NUM_PATCHES * self.NUM_LEVELS, 16, init=mx.init.Uniform(0.5))
        self.head = nn.HybridSequential()
        self.head.add(nn.Flatten(), nn.Dense(32), nn.Activation("tanh"), nn.Dense(num_classes))

    def forward(self, pictures: Any) -> Any:
        patches = mx.nd.Pooling(pictures.mean(axis=1, keepdims=True), (4, 4), "avg", stride=(4, 4))
        levels = mx.nd.floor((patches.reshape((0, -1)) + 2.5) * 3).clip(0, self.NUM_LEVELS - 1)
        places = mx.nd.arange(self.NUM_PATCHES, ctx=pictures.context) * self.NUM_LEVELS
        return self.head(self.table(mx.nd.broadcast_add(levels, places)))


def with_table(num_classes: int) -> Any:
    return Looked(num_classes)
