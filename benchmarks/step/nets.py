"""The nets that are compared and the batches that they learn, the same on both sides; without any framework."""

from __future__ import annotations

from typing import Any, NamedTuple

from benchmarks.harness import training
from benchmarks.tables import clicks

CLASSES = training.NUM_CLASSES


class Net(NamedTuple):
    """A net, how much of what it is shown in a step, and how it learns."""

    model: str  # for pictures and clicks, mxtrain's --model; for tokens, a net of mxnet_nets.py
    batch_size: int
    size: int  # the side of a picture, or the length of a sequence
    rate: float
    optimizer: str = "sgd"
    vocabulary: int = 0  # of tokens; 0: it takes pictures
    classes: int = 0  # of texts; 0: each token is a sample, whose class is a token
    ids: int = 0  # that clicks may have; 0: it takes no clicks

    @property
    def unit(self) -> str:
        if self.ids:
            return "clicks"
        if not self.vocabulary:
            return "images"
        return "texts" if self.classes else "tokens"

    @property
    def samples(self) -> int:
        """Images, clicks, texts or tokens in a step."""
        return self.batch_size * (self.size if self.unit == "tokens" else 1)


NETS = {
    "resnet18": Net("resnet18_v1b", 32, 224, 0.01),
    "resnet50": Net("resnet50_v1b", 16, 224, 0.01),
    "mobilenetv2": Net("mobilenetv2_1.0", 32, 224, 0.02),
    "mobilenetv3": Net("benchmarks.step.mxnet_nets:mobilenetv3", 32, 224, 0.02),
    "densenet121": Net("densenet121", 16, 224, 0.01),
    "gpt": Net("gpt", 8, 256, 1e-3, "adamw", vocabulary=256),
    "lstm": Net("lstm", 32, 64, 1.0, vocabulary=10_000),
    "vit": Net("benchmarks.step.mxnet_nets:vit", 16, 224, 3e-4, "adamw"),
    "text": Net("text", 32, 128, 2e-4, "adamw", vocabulary=10_000, classes=4),
    "deepfm": Net("deepfm:optimizer=adagrad", 2048, 0, 1e-3, "adam", ids=10**6),
}
FOR_TESTS = {
    "small": Net("small_cnn", 4, 32, 0.02),
    "small_gpt": Net("small_gpt", 2, 8, 1e-2, "adamw", vocabulary=16),
    "small_lstm": Net("small_lstm", 2, 8, 0.5, vocabulary=16),
    "small_vit": Net("benchmarks.step.mxnet_nets:small_vit", 4, 32, 1e-3, "adamw"),
    "small_text": Net("small_text", 4, 12, 1e-2, "adamw", vocabulary=16, classes=3),
    "small_deepfm": Net("deepfm:optimizer=adagrad", 64, 0, 1e-2, "adam", ids=2600),
}


class Gpt(NamedTuple):
    """The numbers of a transformer; with 256 tokens and a length of 256 there are 10.9 million weights."""

    layers: int = 6
    heads: int = 6
    width: int = 384


class Vit(NamedTuple):
    """The numbers of a transformer of a picture's patches: those of ViT-Ti/16 (Touvron et al., 2021)."""

    layers: int = 12
    heads: int = 3
    width: int = 192
    patch: int = 16


class Text(NamedTuple):
    """The numbers of mxtrain's `--model transformer` of texts."""

    layers: int = 4
    heads: int = 4
    width: int = 256


class Lstm(NamedTuple):
    layers: int = 2
    width: int = 512


def batch(net: Net) -> tuple[Any, Any]:
    """Return a fixed batch as the loader would give it: inputs, and a class for each image, click, text or token.

    Texts end at any place from their quarter on; behind it tokens are 0. Of clicks inputs are ids and numbers.
    """
    if net.ids:
        made = clicks.made(net.batch_size, net.ids)
        return (made.ids, made.numbers), made.clicked
    if not net.vocabulary:
        return training.noise(net.batch_size, net.size, CLASSES)
    import numpy as np

    rng = np.random.default_rng(0)
    if net.classes:
        tokens = rng.integers(1, net.vocabulary, (net.batch_size, net.size))
        lengths = rng.integers(net.size // 4, net.size + 1, net.batch_size)
        tokens *= np.arange(net.size) < lengths[:, None]
        label = rng.integers(0, net.classes, net.batch_size)
    else:
        tokens = rng.integers(0, net.vocabulary, (net.batch_size, net.size))
        label = ((7 * tokens + 3) % net.vocabulary).reshape(-1)
    return tokens.astype(np.float32), label.astype(np.float32)
