"""A net none of whose channels can be taken out: it takes them apart by place."""

from __future__ import annotations

from typing import Any

from mxtrain.runtime import mx


class Parts(mx.gluon.HybridBlock):  # type: ignore[misc]
    """The halves of a convolution's channels, swapped."""

    def __init__(self, num_classes: int):
        super().__init__()
        with self.name_scope():
            self.first = mx.gluon.nn.Conv2D(8, 3, padding=1)
            self.last = mx.gluon.nn.Dense(num_classes)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        halves = F.split(self.first(x), num_outputs=2, axis=1)
        return self.last(F.concat(halves[1], halves[0], dim=1))


def parts(num_classes: int) -> Any:
    """Return the net."""
    return Parts(num_classes)
