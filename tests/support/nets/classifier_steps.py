"""A step of a classifier by its name, on some pictures: its loss and its gradient."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mxtrain.models.autocast.autocast import Autocast
from mxtrain.models.contract import of_pictures
from mxtrain.models.nets import zoo
from mxtrain.models.parameters import initializers
from mxtrain.runtime import mx

CPU, PICTURES, CLASSES = [mx.cpu()], 4, 5


class Step(NamedTuple):
    """The mean loss of some pictures, and all gradients as one vector."""

    loss: float
    gradient: np.ndarray


def input_size(name: str) -> int:
    if name.startswith("cifar"):
        return 32
    return 299 if name.startswith(("inception", "xception")) else 331 if name.startswith("nasnet") else 224


def train_once(name: str, size: int, narrowing: Autocast | None = None) -> Step:
    """Return a step of the net with weights by a seed; `narrowing` chooses what runs in bfloat16."""
    net = zoo.build(name, CLASSES)
    initializers.initialize(net, "msra", CPU, seed=0)
    zoo.compile(net, name, CPU, of_pictures(size, CLASSES), narrowing, PICTURES)
    return _step_of(net, size)


def _step_of(net: Any, size: int) -> Step:
    mx.random.seed(1)
    with mx.autograd.record():
        output = net(_pictures(size)).astype("float32")
        loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()(output, mx.nd.arange(PICTURES))
    loss.backward()
    assert output.shape == (PICTURES, CLASSES)
    gradients = [p.grad().asnumpy().ravel() for p in net.collect_params().values() if p.grad_req != "null"]
    gradient = np.concatenate(gradients).astype(np.float64)
    assert np.isfinite(gradient).all() and gradient.any()
    return Step(float(loss.mean().asscalar()), gradient)


def _pictures(size: int) -> Any:
    """Return pictures that differ, of large patches: BatchNorm blows up what little does between those of noise."""
    patches = np.random.default_rng(0).standard_normal((PICTURES, 3, 4, 4)).astype(np.float32)
    return mx.nd.array(patches.repeat(-(-size // 4), axis=2).repeat(-(-size // 4), axis=3)[..., :size, :size])
