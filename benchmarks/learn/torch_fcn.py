"""An FCN of a dilated ResNet-50 in PyTorch: layer for layer GluonCV's, children in the same order."""

from __future__ import annotations

import torch
from torch import nn

BLOCKS, WIDTHS, STEM = (3, 4, 6, 3), (64, 128, 256, 512), 64
EXPANSION = 4  # of a block's width into its channels
DROPOUT = 0.1


class Bottleneck(nn.Module):
    def __init__(self, channels_in: int, width: int, stride: int, dilation: int, is_first: bool):
        super().__init__()
        channels = EXPANSION * width
        self.conv1 = nn.Conv2d(channels_in, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, dilation, dilation, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, channels, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(channels)
        self.downsample = nn.Sequential()
        if is_first:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = torch.relu(self.bn1(self.conv1(x)))
        out = torch.relu(self.bn2(self.conv2(out)))
        return torch.relu(self.bn3(self.conv3(out)) + self.downsample(x))


def _stage(number: int) -> nn.Sequential:
    """Return a stage; the last two keep the size, and look further, but for the first block of each."""
    width, channels_in = WIDTHS[number], EXPANSION * WIDTHS[number - 1] if number else 2 * STEM
    stride, first, others = {0: (1, 1, 1), 1: (2, 1, 1), 2: (1, 1, 2), 3: (1, 2, 4)}[number]
    blocks = [Bottleneck(channels_in, width, stride, first, is_first=True)]
    for _ in range(BLOCKS[number] - 1):
        blocks.append(Bottleneck(EXPANSION * width, width, 1, others, is_first=False))
    return nn.Sequential(*blocks)


class Head(nn.Module):
    def __init__(self, channels_in: int, num_classes: int):
        super().__init__()
        width = channels_in // 4
        self.block = nn.Sequential(
            nn.Conv2d(channels_in, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Dropout(DROPOUT),
            nn.Conv2d(width, num_classes, 1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.block(x)
        return out


class Fcn(nn.Module):
    """The net; it answers with the scores of both heads, in the size of the pictures."""

    def __init__(self, num_classes: int):
        super().__init__()
        layers: list[nn.Module] = []
        for channels_in, channels, stride in ((3, STEM, 2), (STEM, STEM, 1)):
            layers += [nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False), nn.BatchNorm2d(channels)]
            layers.append(nn.ReLU())
        self.conv1 = nn.Sequential(*layers, nn.Conv2d(STEM, 2 * STEM, 3, 1, 1, bias=False))
        self.bn1 = nn.BatchNorm2d(2 * STEM)
        self.layer1, self.layer2, self.layer3, self.layer4 = (_stage(number) for number in range(4))
        self.head = Head(EXPANSION * WIDTHS[3], num_classes)
        self.auxlayer = Head(EXPANSION * WIDTHS[2], num_classes)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        out = nn.functional.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        middle = self.layer3(self.layer2(self.layer1(out)))
        scores = (self.head(self.layer4(middle)), self.auxlayer(middle))
        size = x.shape[2:]
        return [nn.functional.interpolate(each, size, mode="bilinear", align_corners=True) for each in scores]
