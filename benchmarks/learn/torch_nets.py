"""The benchmark's nets in PyTorch, by the names that mxtrain knows them under, layer for layer the same."""

from __future__ import annotations

import torch
from torch import nn


def _unit(
    channels_in: int, channels: int, kernel: int = 3, stride: int = 1, *then: nn.Module
) -> nn.Sequential:
    convolution = nn.Conv2d(channels_in, channels, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(channels), *then)


def smooth(num_classes: int) -> nn.Module:
    units = [_unit(*numbers, 3, 2, nn.Tanh()) for numbers in ((3, 16), (16, 32), (32, 64))]
    return nn.Sequential(*units, nn.Flatten(), nn.Linear(64 * 4 * 4, num_classes))


def small_cnn(num_classes: int) -> nn.Module:
    layers: list[nn.Module] = []
    for channels_in, channels in ((3, 16), (16, 32), (32, 64)):
        layers += [_unit(channels_in, channels, 3, 1, nn.ReLU()), _unit(channels, channels, 3, 1, nn.ReLU())]
        layers += [nn.MaxPool2d(2)]
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(64, num_classes)
    )


class Residual(nn.Module):
    def __init__(self, channels_in: int, channels: int, stride: int):
        super().__init__()
        self.body = nn.Sequential(
            _unit(channels_in, channels, 3, stride, nn.ReLU()), _unit(channels, channels)
        )
        self.shortcut = _unit(channels_in, channels, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


def thin_resnet(num_classes: int) -> nn.Module:
    blocks = [Residual(*numbers) for numbers in ((16, 16, 1), (16, 32, 2), (32, 64, 2), (64, 128, 2))]
    return nn.Sequential(
        _unit(3, 16, 7, 2, nn.ReLU()),
        nn.MaxPool2d(3, 2, 1),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(128, num_classes),
    )


NETS = {
    "small_cnn": small_cnn,
    "benchmarks.same_curve.nets:with_batch_norm": smooth,
    "benchmarks.learn.nets:thin_resnet": thin_resnet,
}
