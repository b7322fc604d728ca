"""A user's own net, one that asks for a number in the middle and so cannot become a symbolic graph."""

from __future__ import annotations

import logging
from typing import Any

from mxtrain.runtime import mx

nn = mx.gluon.nn


class Imperative(mx.gluon.HybridBlock):
    def __init__(self, num_classes: int):
        super().__init__()
        with self.name_scope():
            self.body = nn.HybridSequential()
            self.body.add(
                nn.Conv2D(8, 3, strides=2), nn.BatchNorm(), nn.Activation("relu"), nn.GlobalAvgPool2D()
            )
            self.head = nn.Dense(num_classes)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        features = self.body(x)
        return self.head(features if features.asnumpy().sum() >= 0 else -features)


def imperative_net(num_classes: int) -> Any:
    return Imperative(num_classes)


def logging_net(num_classes: int) -> Any:
    """As mxnet's amp does, this sets up Python's own way of logging."""
    logging.info("a net of %d classes", num_classes)
    return Imperative(num_classes)


def plain(num_classes: int) -> Any:
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(8, 3), nn.BatchNorm(), nn.Activation("relu"), nn.GlobalAvgPool2D(), nn.Dense(num_classes)
    )
    return net


def adding(num_classes: int) -> Any:
    net = plain(num_classes)
    net.collect_params().setattr("grad_req", "add")
    return net


class Scaled(mx.gluon.HybridBlock):
    """A weight of one dimension, without an initialiser of its own."""

    def __init__(self, channels: int):
        super().__init__()
        self.scale = self.params.get("scale", shape=(channels,), allow_deferred_init=True)

    def infer_shape(self, x: Any) -> None:
        self.scale.shape = (x.shape[1],)

    def hybrid_forward(self, F: Any, x: Any, scale: Any) -> Any:
        return F.broadcast_mul(x, scale.reshape((1, -1, 1, 1)))


def scaled(num_classes: int, channels: int = 8) -> Any:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(8, 3), Scaled(channels), nn.Activation("relu"), nn.GlobalAvgPool2D())
    net.add(nn.Dense(num_classes))
    return net


def scaled_when_called(num_classes: int) -> Any:
    return scaled(num_classes, channels=0)


def one_too_many(num_classes: int) -> Any:
    net = Lambda(lambda F, x: net.body(x))
    net.body, net.spare = plain(num_classes), nn.Dense(3, prefix="spare_")
    return net


def three_outputs(num_classes: int) -> Any:
    return nn.Dense(3)


class Lambda(mx.gluon.HybridBlock):
    def __init__(self, function: Any):
        super().__init__()
        self.function = function

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.function(F, x)


def two_arrays(num_classes: int) -> Any:
    return Lambda(lambda F, x: (x, x))


def nothing_to_train(num_classes: int) -> Any:
    return Lambda(lambda F, x: F.slice_axis(F.flatten(x), axis=1, begin=0, end=num_classes))


def buggy(num_classes: int) -> Any:
    return Lambda(lambda F, x: undefined_name)  # noqa: F821
