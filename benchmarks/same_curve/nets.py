"""A small net with and without batch statistics and random masks, which depend on the micro-batches.

Its activation is smooth. ReLU has a kink: when a value passes it in one run and not in the other, the last bits that
every other order of sums moves become a difference of gradients, which then grows from step to step. That is a
property of such nets, whatever computes them, and would hide what is measured here.
"""

from __future__ import annotations

from typing import Any

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
