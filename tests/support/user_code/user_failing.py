"""A user's code that fails in each of the places in which it runs."""

from __future__ import annotations

from typing import Any

from mxtrain.runtime import mx


def fail(*_: Any, **__: Any) -> Any:
    raise KeyError("the user's own mistake")


class Late(mx.gluon.Block):
    """Fails in training only, which a try-out before it does not see."""

    def __init__(self, num_classes: int):
        super().__init__()
        with self.name_scope():
            self.head = mx.gluon.nn.Dense(num_classes)

    def forward(self, x: Any) -> Any:
        if mx.autograd.is_training():
            fail()
        return self.head(x)


def late_net(num_classes: int) -> Any:
    return Late(num_classes)


class Loss:
    def __call__(self, output: Any, label: Any) -> Any:
        if mx.autograd.is_training():
            fail()
        return output.mean(axis=1)


class Pictures:
    """Knows its labels, and fails at the pictures."""

    _label = [0.0, 1.0] * 16

    def __len__(self) -> int:
        return 32

    def __getitem__(self, position: int) -> Any:
        return fail()


class Batches:
    def __len__(self) -> int:
        return 2

    def __iter__(self) -> Any:
        return iter(fail, None)


def augmentation(image: Any, rng: Any) -> Any:
    return fail()
