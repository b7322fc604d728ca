"""Small nets of the layers that answers join: by oneDNN alone, and by operators of ours of each kind."""

from __future__ import annotations

from typing import Any

from mxtrain.models.nets.small import Residual
from mxtrain.runtime import mx

nn = mx.gluon.nn
ONEDNN, LAST_CHANNELS, DENSE = (f"{__name__}:{name}" for name in ("onednn_net", "wide_resnet", "dense_net"))


class Bottleneck(mx.gluon.HybridBlock):  # type: ignore[misc]
    """mobilenetv2's block, whose layers oneDNN joins all."""

    def __init__(self, channels: int, **names: Any):
        super().__init__(**names)
        with self.name_scope():
            self.body = nn.HybridSequential(prefix="")
            for outputs, kernel, groups in ((24, 1, 1), (24, 3, 24), (channels, 1, 1)):
                sizes = {"padding": kernel // 2, "groups": groups, "use_bias": False}
                self.body.add(nn.Conv2D(outputs, kernel, **sizes), nn.BatchNorm())
                if outputs != channels:
                    self.body.add(nn.HybridLambda(lambda F, x: F.clip(x, 0, 6)))

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return x + self.body(x)


class DenseLayer(mx.gluon.HybridBlock):  # type: ignore[misc]
    """densenet's layer: norms and ReLUs before convolutions, and its input beside what it gives."""

    def __init__(self, **names: Any):
        super().__init__(**names)
        with self.name_scope():
            self.body = nn.HybridSequential(prefix="")
            for outputs, kernel in ((64, 1), (32, 3)):
                self.body.add(nn.BatchNorm(), nn.Activation("relu"))
                self.body.add(nn.Conv2D(outputs, kernel, padding=kernel // 2, use_bias=False))

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.concat(x, self.body(x), dim=1)


def onednn_net(num_classes: int) -> Any:
    return _net(8, [Bottleneck(8), Bottleneck(8), Bottleneck(8)], num_classes)


def wide_resnet(num_classes: int) -> Any:
    return _net(32, [Residual(32, 1), Residual(32, 1), Residual(64, 2)], num_classes)


def dense_net(num_classes: int) -> Any:
    between = [nn.BatchNorm(), nn.Activation("relu"), nn.Conv2D(32, 1, use_bias=False), nn.AvgPool2D(2)]
    return _net(32, [DenseLayer(), DenseLayer(), *between, DenseLayer(), nn.BatchNorm()], num_classes)


def _net(channels: int, layers: list[Any], num_classes: int) -> Any:
    net = nn.HybridSequential()
    with net.name_scope():
        net.add(nn.Conv2D(channels, 3, padding=1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))
        net.add(*layers)
        net.add(nn.Activation("relu"), nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(num_classes))
    return net
