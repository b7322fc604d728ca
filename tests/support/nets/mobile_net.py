"""A small net of the layers that mobilenetv2 and v3 have."""

from __future__ import annotations

from typing import Any

from mxtrain.runtime import mx

nn = mx.gluon.nn
QUICK_MOBILE = f"{__name__}:quick_mobile"
# Its first norm, one of two around a depthwise convolution, and one behind a 1 x 1.
SOME_NORMS = "1.*,4.*,17.*"


class ReLU6(mx.gluon.HybridBlock):  # type: ignore[misc]
    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.clip(x, 0, 6)


class HardSwish(mx.gluon.HybridBlock):  # type: ignore[misc]
    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return x * (F.clip(x + 3, 0, 6) / 6)


def quick_mobile(num_classes: int) -> Any:
    """Return a first convolution, three blocks of eight layers with a depthwise one each, and a head."""
    net = nn.HybridSequential()
    with net.name_scope():
        net.add(nn.Conv2D(8, 3, padding=1, use_bias=False), nn.BatchNorm(), ReLU6())
        for stride, kernel, activation in ((2, 3, ReLU6), (1, 5, HardSwish), (1, 3, HardSwish)):
            net.add(nn.Conv2D(16, 1, use_bias=False), nn.BatchNorm(), activation())
            window = {"strides": stride, "padding": kernel // 2, "groups": 16, "use_bias": False}
            net.add(nn.Conv2D(16, kernel, **window), nn.BatchNorm(), activation())
            net.add(nn.Conv2D(8, 1, use_bias=False), nn.BatchNorm())
        net.add(nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(num_classes))
    return net
