"""Nets whose backward pass is wrong somewhere, or whose gradient does not get everywhere."""

from __future__ import annotations

from typing import Any

from mxtrain.runtime import mx

nn = mx.gluon.nn


class Square(mx.autograd.Function):
    """x squared, times a factor in the backward pass that is 2 where it is right."""

    def __init__(self, factor: float):
        super().__init__()
        self._factor = factor

    def forward(self, x: Any) -> Any:
        self.save_for_backward(x)
        return x * x

    def backward(self, gradient: Any) -> Any:
        (x,) = self.saved_tensors
        return self._factor * x * gradient


class Squared(mx.gluon.Block):
    def __init__(self, factor: float):
        super().__init__()
        self._factor = factor

    def forward(self, x: Any) -> Any:
        return Square(self._factor)(x)


class Shifted(mx.gluon.Block):
    """Adds a parameter, with a backward pass that gives it half its gradient."""

    class Add(mx.autograd.Function):
        def forward(self, x: Any, shift: Any) -> Any:
            return x + shift

        def backward(self, gradient: Any) -> Any:
            return gradient, 0.5 * gradient.sum(axis=0)

    def __init__(self, size: int):
        super().__init__()
        self.shift = self.params.get("shift", shape=(size,), init="zeros")

    def forward(self, x: Any) -> Any:
        return Shifted.Add()(x, self.shift.data(x.context))


class InItself(mx.gluon.Block):
    """Squares between its layers, where no block sees it."""

    def __init__(self, num_classes: int):
        super().__init__()
        self.first, self.last = nn.Dense(8), nn.Dense(num_classes)

    def forward(self, x: Any) -> Any:
        return self.last(Square(1.0)(self.first(x)))


class Detached(mx.gluon.Block):
    def __init__(self, num_classes: int):
        super().__init__()
        self.first, self.last = nn.Dense(8, activation="relu"), nn.Dense(num_classes)

    def forward(self, x: Any) -> Any:
        return self.last(self.first(x).detach())


def chain(*middle: Any, num_classes: int) -> Any:
    net = nn.Sequential()
    net.add(nn.Conv2D(4, 3, strides=2), nn.BatchNorm(), nn.Activation("relu"), nn.Flatten(), nn.Dense(8))
    net.add(*middle, nn.Dense(num_classes))
    return net


def right(num_classes: int) -> Any:
    return chain(Squared(2.0), num_classes=num_classes)


def wrong_square(num_classes: int) -> Any:
    return chain(Squared(1.5), num_classes=num_classes)


def wrong_shift(num_classes: int) -> Any:
    return chain(Shifted(8), num_classes=num_classes)


class WrongLoss(mx.autograd.Function):
    """The sum of squared scores, with the sign of its gradient turned."""

    def forward(self, output: Any) -> Any:
        self.save_for_backward(output)
        return (output * output).sum(axis=1)

    def backward(self, gradient: Any) -> Any:
        (output,) = self.saved_tensors
        return -2 * output * gradient.reshape((-1, 1))


def wrong_loss(output: Any, label: Any) -> Any:
    return WrongLoss()(output)
