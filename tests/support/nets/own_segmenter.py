"""Nets of pixels of one's own, for `--model tests.support.nets.own_segmenter:NAME`."""

from __future__ import annotations

from typing import Any

from mxtrain.runtime import mx

nn = mx.gluon.nn


def quarter(num_classes: int) -> Any:
    """Return a net that answers at a quarter of the sides."""
    net = nn.HybridSequential()
    for channels, stride in ((16, 2), (32, 2), (32, 1)):
        net.add(nn.Conv2D(channels, 3, stride, 1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))
    net.add(nn.Conv2D(num_classes, 1))
    return net


def of_pictures(num_classes: int) -> Any:
    """Return a net that gives a whole picture a class."""
    net = quarter(num_classes)
    net.add(nn.GlobalAvgPool2D(), nn.Flatten())
    return net
