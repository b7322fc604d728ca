"""Nets for runs that are ill on purpose, of vectors."""

from __future__ import annotations

from typing import Any

from mxtrain.runtime import mx

nn = mx.gluon.nn


def linear(inputs: Any, outputs: int) -> Any:
    return nn.Dense(outputs)


def deep_sigmoid(inputs: Any, outputs: int) -> Any:
    """Each of its layers leaves a quarter of a gradient at most."""
    return _stack(["sigmoid"] * 10, outputs)


def deep_relu(inputs: Any, outputs: int) -> Any:
    """Without norms: initial weights that are too large multiply from layer to layer."""
    return _stack(["relu"] * 8, outputs)


def dying(inputs: Any, outputs: int) -> Any:
    """Three of four units of its second layer are below zero whatever comes in."""
    net = nn.HybridSequential()
    biases = mx.init.Constant(mx.nd.array([-1e3] * 48 + [0.0] * 16))
    net.add(nn.Dense(64, activation="relu"))
    net.add(nn.Dense(64, activation="relu", bias_initializer=biases), nn.Dense(outputs))
    return net


def _stack(activations: list[str], outputs: int) -> Any:
    net = nn.HybridSequential()
    for activation in activations:
        net.add(nn.Dense(64, activation=activation))
    net.add(nn.Dense(outputs))
    return net
