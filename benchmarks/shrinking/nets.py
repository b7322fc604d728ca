"""Nets of half the channels, as `--prune 0.5` leaves them, to be trained from nothing: named by `--model`."""

from __future__ import annotations

from typing import Any

from benchmarks.learn.nets import thin_resnet
from mxtrain.runtime import mx

nn = mx.gluon.nn


def half_cnn(num_classes: int) -> Any:
    """Return small_cnn with half of its channels."""
    net = nn.HybridSequential()
    with net.name_scope():
        for channels in (8, 16, 32):
            for _ in range(2):
                net.add(nn.Conv2D(channels, 3, padding=1, use_bias=False), nn.BatchNorm())
                net.add(nn.Activation("relu"))
            net.add(nn.MaxPool2D(2))
        net.add(nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dropout(0.2), nn.Dense(num_classes))
    return net


def half_thin_resnet(num_classes: int) -> Any:
    """Return `benchmarks.learn.nets:thin_resnet` with half of its channels."""
    return thin_resnet(num_classes, width=8)
