"""Nets that train and cannot be exported whole: with an operator that ONNX does not have, and without a graph."""

from __future__ import annotations

from typing import Any

from mxtrain.runtime import mx


class _Correlated(mx.gluon.nn.HybridBlock):
    def __init__(self, num_classes: int):
        super().__init__()
        self.first, self.head = mx.gluon.nn.Conv2D(3, 1), mx.gluon.nn.Dense(num_classes)

    def hybrid_forward(self, F: Any, pictures: Any) -> Any:
        features = self.first(pictures)
        shifts = {"kernel_size": 1, "max_displacement": 1, "stride1": 1, "stride2": 1, "pad_size": 1}
        return self.head(F.Correlation(features, features, **shifts))


class _Plain(mx.gluon.Block):
    def __init__(self, num_classes: int):
        super().__init__()
        self.head = mx.gluon.nn.Dense(num_classes)

    def forward(self, pictures: Any) -> Any:
        return self.head(pictures.reshape((pictures.shape[0], -1)))


def correlated(num_classes: int) -> Any:
    """Return a net with MXNet's operator Correlation."""
    return _Correlated(num_classes)


def plain(num_classes: int) -> Any:
    """Return a net whose forward pass asks for shapes, so that it is no graph."""
    return _Plain(num_classes)
