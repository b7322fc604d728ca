"""Small nets that train on a laptop, for the demo and the tests. Other nets are GluonCV's (`zoo.py`)."""

from __future__ import annotations

from typing import Any

from mxtrain.runtime import mx
from mxtrain.runtime.types import Block

nn = mx.gluon.nn


def small_cnn(num_classes: int) -> Block:
    """Return a net of three stages of convolutions, for 16x16 pixels and more: 0.1 M parameters."""
    net = nn.HybridSequential(prefix="smallcnn_")
    with net.name_scope():
        for channels in (16, 32, 64):
            for _ in range(2):
                net.add(
                    nn.Conv2D(channels, 3, padding=1, use_bias=False), nn.BatchNorm(), nn.Activation("relu")
                )
            net.add(nn.MaxPool2D(2))
        net.add(nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dropout(0.2), nn.Dense(num_classes))
    return net


class Residual(mx.gluon.HybridBlock):
    """Two 3x3 convolutions beside a shortcut."""

    def __init__(self, channels: int, stride: int, **kwargs: Any):
        super().__init__(**kwargs)
        with self.name_scope():
            self.body = nn.HybridSequential(prefix="")
            self.body.add(
                nn.Conv2D(channels, 3, stride, 1, use_bias=False),
                nn.BatchNorm(),
                nn.Activation("relu"),
                nn.Conv2D(channels, 3, 1, 1, use_bias=False),
                nn.BatchNorm(),
            )
            self.shortcut = nn.HybridSequential(prefix="shortcut_")
            if stride > 1:
                self.shortcut.add(nn.Conv2D(channels, 1, stride, use_bias=False), nn.BatchNorm())

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.relu(self.body(x) + self.shortcut(x))


def small_resnet(num_classes: int) -> Block:
    """Return a net of three stages of two residual blocks, for 32 to 96 pixels: 0.7 M parameters."""
    net = nn.HybridSequential(prefix="smallresnet_")
    with net.name_scope():
        net.add(nn.Conv2D(32, 3, 1, 1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))
        for channels, stride in ((32, 1), (32, 1), (64, 2), (64, 1), (128, 2), (128, 1)):
            net.add(Residual(channels, stride))
        net.add(nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(num_classes))
    return net
