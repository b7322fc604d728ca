"""A net of 100 numbers with all that a checkpoint has to keep: weights, running statistics, dropout's seeds."""

from __future__ import annotations

from typing import Any

from mxtrain.runtime import mx


def build(num_classes: int) -> Any:
    nn = mx.gluon.nn
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, in_channels=3), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(2))
    net.add(nn.Conv2D(4, 3), nn.BatchNorm(), nn.Activation("relu"))
    net.add(nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dropout(0.2), nn.Dense(num_classes))
    return net
