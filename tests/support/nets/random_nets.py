"""Random nets of blocks, as inference graphs, of what `export --to int8` joins and turns into whole numbers."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import numpy as np

from mxtrain.export.inference_graph import InferenceGraph
from mxtrain.runtime import mx

Block = Callable[["Builder", Any], Any]  # a net's next operators, of those before


class Builder:
    """The operators of a net of so many channels all the way, each called by its kind and a number."""

    def __init__(self, channels: int):
        self.channels, self._num_named = channels, 0

    def name(self, kind: str) -> str:
        """Return a name for the next operator."""
        self._num_named += 1
        return f"{kind}{self._num_named}"

    def convolution(self, x: Any, kernel: int = 3, groups: int = 1) -> Any:
        """Return a convolution that keeps the size."""
        sizes = {"kernel": (kernel, kernel), "pad": (kernel // 2, kernel // 2)}
        return mx.sym.Convolution(
            x, num_filter=self.channels, num_group=groups, name=self.name("conv"), **sizes
        )

    def normed(self, x: Any, kernel: int = 3, groups: int = 1) -> Any:
        """Return a convolution and its norm."""
        return self.norm(self.convolution(x, kernel, groups))

    def norm(self, x: Any) -> Any:
        """Return a norm by statistics of training."""
        return mx.sym.BatchNorm(x, fix_gamma=False, name=self.name("norm"))

    def relu(self, x: Any) -> Any:
        """Return a ReLU."""
        return mx.sym.Activation(x, act_type="relu", name=self.name("relu"))

    def gate(self, x: Any) -> Any:
        """Return what multiplies the channels of `x` by how much each matters, as squeeze and excitation does."""
        pooled = mx.sym.Pooling(
            x, global_pool=True, pool_type="avg", kernel=(1, 1), name=self.name("squeeze")
        )
        inner = self.relu(mx.sym.FullyConnected(pooled, num_hidden=8, name=self.name("dense")))
        outer = mx.sym.FullyConnected(inner, num_hidden=self.channels, name=self.name("dense"))
        share = mx.sym.sigmoid(outer, name=self.name("sigmoid"))
        return mx.sym.reshape(share, (0, 0, 1, 1), name=self.name("reshape"))

    def gated(self, x: Any) -> Any:
        """Return `x` with each channel multiplied by its gate."""
        return mx.sym.broadcast_mul(x, self.gate(x), name=self.name("gated"))

    def sum(self, left: Any, right: Any) -> Any:
        """Return the sum of both."""
        return mx.sym.elemwise_add(left, right, name=self.name("sum"))


def _gated_residual(net: Builder, x: Any) -> Any:
    return net.relu(net.sum(net.gated(net.normed(net.relu(net.normed(x)))), x))


def _residual(net: Builder, x: Any) -> Any:
    return net.relu(net.sum(net.normed(net.relu(net.normed(x))), x))


def _linear_residual(net: Builder, x: Any) -> Any:
    return net.sum(net.normed(net.relu(net.normed(x, 1)), 1), x)


def _sum_of_both(net: Builder, x: Any) -> Any:
    return net.relu(net.sum(net.normed(x), net.normed(x, 1)))


def _gated_sum_of_both(net: Builder, x: Any) -> Any:
    return net.relu(net.sum(net.gated(net.normed(x)), net.normed(x, 1)))


def _doubled(net: Builder, x: Any) -> Any:
    branch = net.normed(x)
    return net.relu(net.sum(branch, branch))


def _fork(net: Builder, x: Any) -> Any:
    branch = net.normed(x)
    return net.sum(net.relu(net.sum(branch, x)), net.relu(net.convolution(branch, 1)))


def _fork_of_a_sum(net: Builder, x: Any) -> Any:
    both = net.sum(net.normed(x), x)
    return net.sum(net.relu(both), net.normed(both, 1))


def _gated_sum(net: Builder, x: Any) -> Any:
    return net.gated(net.relu(net.sum(net.normed(x), x)))


def _sum_of_three(net: Builder, x: Any) -> Any:
    return net.relu(net.sum(net.sum(net.normed(x), net.gated(net.normed(x, 1))), x))


def _normed_before(net: Builder, x: Any) -> Any:
    inner = net.convolution(net.relu(net.norm(x)))
    return net.sum(net.convolution(net.relu(net.norm(inner))), x)


def _fork_of_a_convolution(net: Builder, x: Any) -> Any:
    branch = net.convolution(x)
    return net.sum(net.convolution(net.relu(net.norm(branch))), branch)


def _fork_of_a_norm(net: Builder, x: Any) -> Any:
    branch = net.normed(x)
    return net.relu(net.sum(net.normed(net.relu(branch)), branch))


def _concat(net: Builder, x: Any) -> Any:
    parts = mx.sym.concat(net.relu(net.normed(x)), net.gated(x), dim=1, name=net.name("concat"))
    return net.relu(net.normed(parts, 1))


def _pooled_sum(net: Builder, x: Any) -> Any:
    pooled = mx.sym.Pooling(
        x, kernel=(3, 3), pad=(1, 1), pool_type="max", pooling_convention="valid", name=net.name("pool")
    )
    return net.sum(net.relu(net.normed(x)), pooled)


def _depthwise_residual(net: Builder, x: Any) -> Any:
    inner = net.relu(net.normed(net.relu(net.normed(x, 1)), 3, net.channels))
    return net.sum(net.normed(net.gated(inner), 1), x)


BLOCKS: dict[str, Block] = {
    function.__name__[1:]: function
    for function in (
        *(_gated_residual, _residual, _linear_residual, _sum_of_both, _gated_sum_of_both, _doubled, _fork),
        *(_fork_of_a_convolution, _fork_of_a_norm, _fork_of_a_sum, _normed_before, _gated_sum, _sum_of_three),
        *(_concat, _pooled_sum, _depthwise_residual),
    )
}


def build(blocks: Sequence[str], channels: int, size: int, seed: int) -> InferenceGraph:
    """Return a net of these blocks between a convolution and a classifier of 10, with random weights and statistics."""
    net = Builder(channels)
    x = net.relu(net.normed(mx.sym.var("data")))
    for block in blocks:
        x = BLOCKS[block](net, x)
    x = mx.sym.Pooling(x, global_pool=True, pool_type="avg", kernel=(1, 1), name="last_pool")
    symbol = mx.sym.FullyConnected(x, num_hidden=10, name="classifier")
    shapes, _, statistics = symbol.infer_shape(data=(1, 3, size, size))
    rng = np.random.default_rng(seed)
    arguments = {
        name: _weight(rng, name, shape)
        for name, shape in zip(symbol.list_arguments(), shapes)
        if name != "data"
    }
    auxiliaries = {
        name: _weight(rng, name, shape) for name, shape in zip(symbol.list_auxiliary_states(), statistics)
    }
    return InferenceGraph(
        "--model random",
        symbol,
        arguments,
        auxiliaries,
        {"data": (3, size, size)},
        {"classifier_output": (10,)},
    )


def _weight(rng: np.random.Generator, name: str, shape: Sequence[int]) -> Any:
    if name.endswith(("gamma", "moving_var")):
        values = rng.uniform(0.5, 1.5, shape)
    elif name.endswith(("beta", "bias", "moving_mean")):
        values = rng.normal(0, 0.2, shape)
    else:
        values = rng.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape)
    return mx.nd.array(values, dtype="float32")
