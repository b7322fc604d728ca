"""The nets in PyTorch, layer for layer as Gluon's, so that weights load by their order."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from benchmarks.step.nets import CLASSES, Gpt, Lstm, Net, Text, Vit
from benchmarks.tables.torch_side import DeepFm


def build(net: Net) -> nn.Module:
    """Return the twin of a net."""
    if net.model == "gpt":
        return Transformer(net.vocabulary, net.size, Gpt())
    if net.model == "lstm":
        return Recurrent(net.vocabulary, Lstm())
    if net.model == "text":
        return Texts(net.vocabulary, net.size, net.classes, Text())
    if net.ids:
        return DeepFm(net.ids, is_sparse=True)
    return PICTURE_NETS[net.model]()


def _unit(
    into: int,
    out: int,
    kernel: int = 1,
    stride: int = 1,
    groups: int = 1,
    then: type[nn.Module] | None = nn.ReLU,
) -> nn.Sequential:
    convolution = nn.Conv2d(into, out, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(out), *([then(inplace=True)] if then else []))


class Residual(nn.Module):
    """A branch added to its input, or to a convolution of it, with a ReLU behind."""

    def __init__(self, into: int, out: int, stride: int, *branch: nn.Module):
        super().__init__()
        self.branch = nn.Sequential(*branch)
        self.shortcut = None if into == out and stride == 1 else _unit(into, out, 1, stride, then=None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shortcut = x if self.shortcut is None else self.shortcut(x)
        return functional.relu(self.branch(x) + shortcut, inplace=True)


def _basic(into: int, width: int, stride: int) -> nn.Module:
    return Residual(into, width, stride, _unit(into, width, 3, stride), _unit(width, width, 3, then=None))


def _bottleneck(into: int, width: int, stride: int) -> nn.Module:
    middle = _unit(width, width, 3, stride)
    return Residual(into, 4 * width, stride, _unit(into, width), middle, _unit(width, 4 * width, then=None))


def _resnet(block: type[nn.Module], expansion: int, depths: tuple[int, ...]) -> nn.Module:
    layers: list[nn.Module] = [_unit(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, depth in enumerate(depths):
        for number in range(depth):
            width = 64 * 2**stage
            layers.append(block(channels, width, 2 if stage and number == 0 else 1))
            channels = width * expansion
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES))


class Inverted(nn.Module):
    """A branch that is added to its input where both have the same shape."""

    def __init__(self, into: int, out: int, stride: int, *branch: nn.Module):
        super().__init__()
        self.branch, self.is_added = nn.Sequential(*branch), into == out and stride == 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.branch(x) if self.is_added else self.branch(x)


def mobilenetv2() -> nn.Module:
    layers: list[nn.Module] = [_unit(3, 32, 3, 2, then=nn.ReLU6)]
    channels = 32
    for widen, out, depth, first_stride in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ):  # fmt: skip
        for number in range(depth):
            stride, wide = first_stride if number == 0 else 1, channels * widen
            branch = [_unit(channels, wide, then=nn.ReLU6)] if widen > 1 else []
            branch += [_unit(wide, wide, 3, stride, wide, nn.ReLU6), _unit(wide, out, then=None)]
            layers.append(Inverted(channels, out, stride, *branch))
            channels = out
    layers += [_unit(channels, 1280, then=nn.ReLU6), nn.AdaptiveAvgPool2d(1)]
    return nn.Sequential(*layers, nn.Conv2d(1280, CLASSES, 1, bias=False), nn.Flatten())


class Gate(nn.Module):
    """Squeeze and excitation: each channel times a number that all channels' means decide."""

    def __init__(self, channels: int):
        super().__init__()
        narrow = -(-(channels // 4) // 8) * 8
        self.narrow, self.widen = nn.Conv2d(channels, narrow, 1), nn.Conv2d(narrow, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        means = functional.adaptive_avg_pool2d(x, 1)
        return x * functional.hardsigmoid(self.widen(functional.relu(self.narrow(means), inplace=True)))


def mobilenetv3() -> nn.Module:
    layers: list[nn.Module] = [_unit(3, 16, 3, 2, then=nn.Hardswish)]
    channels = 16
    for kernel, wide, out, has_gate, is_relu, stride in (
        (3, 16, 16, 0, 1, 1), (3, 64, 24, 0, 1, 2), (3, 72, 24, 0, 1, 1), (5, 72, 40, 1, 1, 2), (5, 120, 40, 1, 1, 1),
        (5, 120, 40, 1, 1, 1), (3, 240, 80, 0, 0, 2), (3, 200, 80, 0, 0, 1), (3, 184, 80, 0, 0, 1),
        (3, 184, 80, 0, 0, 1), (3, 480, 112, 1, 0, 1), (3, 672, 112, 1, 0, 1), (5, 672, 160, 1, 0, 2),
        (5, 960, 160, 1, 0, 1), (5, 960, 160, 1, 0, 1),
    ):  # fmt: skip
        then = nn.ReLU if is_relu else nn.Hardswish
        branch = [_unit(channels, wide, then=then)] if wide != out else []
        branch += [_unit(wide, wide, kernel, stride, wide, then), *([Gate(wide)] if has_gate else [])]
        layers.append(Inverted(channels, out, stride, *branch, _unit(wide, out, then=None)))
        channels = out
    layers += [_unit(channels, 960, then=nn.Hardswish), nn.AdaptiveAvgPool2d(1)]
    layers += [nn.Conv2d(960, 1280, 1, bias=False), nn.Hardswish(inplace=True)]
    return nn.Sequential(*layers, nn.Conv2d(1280, CLASSES, 1), nn.Flatten())


def _norm_first(into: int, out: int, kernel: int = 1) -> list[nn.Module]:
    convolution = nn.Conv2d(into, out, kernel, padding=kernel // 2, bias=False)
    return [nn.BatchNorm2d(into), nn.ReLU(inplace=True), convolution]


class Concatenated(nn.Module):
    def __init__(self, *branch: nn.Module):
        super().__init__()
        self.branch = nn.Sequential(*branch)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, self.branch(x)], 1)


def densenet121() -> nn.Module:
    growth, depths, channels = 32, (6, 12, 24, 16), 64
    layers: list[nn.Module] = [_unit(3, channels, 7, 2), nn.MaxPool2d(3, 2, 1)]
    for stage, depth in enumerate(depths):
        for _ in range(depth):
            layers.append(
                Concatenated(*_norm_first(channels, 4 * growth), *_norm_first(4 * growth, growth, 3))
            )
            channels += growth
        if stage < len(depths) - 1:
            layers += [*_norm_first(channels, channels // 2), nn.AvgPool2d(2)]
            channels //= 2
    layers += [nn.BatchNorm2d(channels), nn.ReLU(inplace=True), nn.AvgPool2d(7), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(channels, CLASSES))


PICTURE_NETS = {
    "resnet18_v1b": lambda: _resnet(_basic, 1, (2, 2, 2, 2)),
    "resnet50_v1b": lambda: _resnet(_bottleneck, 4, (3, 4, 6, 3)),
    "mobilenetv2_1.0": mobilenetv2,
    "benchmarks.step.mxnet_nets:mobilenetv3": mobilenetv3,
    "densenet121": densenet121,
    "benchmarks.step.mxnet_nets:vit": lambda: Pictures(CLASSES, 224, Vit()),
}


class Transformer(nn.Module):
    def __init__(self, vocabulary: int, length: int, numbers: Gpt):
        super().__init__()
        width = numbers.width
        self.positions = nn.Parameter(torch.zeros(length, 1, width))
        self.tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.Sequential(
            *(Layer(numbers.heads, width, is_causal=True) for _ in range(numbers.layers))
        )
        self.norm = nn.LayerNorm(width)
        self.scores = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        found = self.norm(self.layers(self.tokens(tokens) + self.positions.squeeze(1)))
        return self.scores(found).flatten(0, 1)


class Layer(nn.Module):
    def __init__(self, heads: int, width: int, is_causal: bool = False):
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(heads, width, is_causal)
        self.dense_norm = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, seen: torch.Tensor | None = None) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x), seen)
        return x + self.narrow(functional.gelu(self.widen(self.dense_norm(x))))


class Attention(nn.Module):
    """Attention of a token to those `seen`, up to itself, or all; of a head, query, key and value lie side by side."""

    def __init__(self, heads: int, width: int, is_causal: bool):
        super().__init__()
        self.heads, self.is_causal = heads, is_causal
        self.project, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor, seen: torch.Tensor | None) -> torch.Tensor:
        of_heads = self.project(x).unflatten(2, (self.heads, 3, -1)).transpose(1, 2)
        query, key, value = of_heads.unbind(3)
        attended = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=seen, is_causal=self.is_causal
        )
        return self.join(attended.transpose(1, 2).flatten(2))


class Recurrent(nn.Module):
    def __init__(self, vocabulary: int, numbers: Lstm):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, numbers.width)
        self.lstm = nn.LSTM(numbers.width, numbers.width, numbers.layers, batch_first=True)
        self.scores = nn.Linear(numbers.width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.scores(self.lstm(self.tokens(tokens))[0]).flatten(0, 1)


class Pictures(nn.Module):
    """A ViT: patches of a picture are tokens, behind one more that becomes the picture's features."""

    def __init__(self, num_classes: int, size: int, numbers: Vit):
        super().__init__()
        width, patch = numbers.width, numbers.patch
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.zeros((size // patch) ** 2 + 1, 1, width))
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.layers = nn.Sequential(*(Layer(numbers.heads, width) for _ in range(numbers.layers)))
        self.norm = nn.LayerNorm(width)
        self.scores = nn.Linear(width, num_classes)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        patches = self.patches(pictures).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.first.expand(len(patches), -1, -1), patches], dim=1)
        return self.scores(self.norm(self.layers(tokens + self.positions.squeeze(1))[:, 0]))


class Texts(nn.Module):
    """An encoder of texts, which end before the first token that is 0: the mean and the most of what it finds."""

    def __init__(self, vocabulary: int, length: int, classes: int, numbers: Text):
        super().__init__()
        width = numbers.width
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(Layer(numbers.heads, width) for _ in range(numbers.layers))
        self.norm = nn.LayerNorm(width)
        self.scores = nn.Linear(2 * width, classes)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        mask = tokens > 0
        x = self.tokens(tokens) + self.positions.weight
        for layer in self.layers:
            x = layer(x, mask[:, None, None])
        found = self.norm(x)
        mean = (found * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)
        most = found.masked_fill(~mask[..., None], -torch.inf).amax(1)
        return self.scores(torch.cat([mean, most], dim=1))
