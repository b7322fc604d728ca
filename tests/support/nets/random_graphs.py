"""Random nets as Symbols, of what rewrites of graphs look for and of what may stand before and behind it."""

from __future__ import annotations

import functools
from typing import Any, Callable, Sequence

import numpy as np

from mxtrain.models import chosen_rewrites
from mxtrain.models.rewrites import graph_rewrites, joined_layers
from mxtrain.runtime import mx

CHANNELS = (4, 8, 10, 16, 24, 32, 40, 48, 64, 96)
SIZES = (1, 2, 3, 4, 5, 7, 8, 14)
Choose = Callable[[Sequence[Any]], Any]  # one of several
Shape = tuple  # of an array


class Builder:
    """A net that grows by an operator at a time, each chosen by `choose`; knows the shape of what it gives."""

    def __init__(self, choose: Choose, shape: Sequence[int]):
        self.choose, self.input_shape, self._num_named = choose, tuple(shape), 0
        self.symbol = mx.sym.var("x")

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the net's output."""
        (shape,) = self.symbol.infer_shape(x=self.input_shape)[1]
        return tuple(shape)

    def name(self) -> str:
        """Return a name for the next operator."""
        self._num_named += 1
        return f"n{self._num_named}"

    def convolution(
        self, data: Any, filters: int, kernel: int, stride: int = 1, groups: int = 1, dilation: int = 1
    ) -> Any:
        """Return a convolution of `data` that keeps its size but for the stride."""
        sizes = {
            "kernel": (kernel,) * 2,
            "stride": (stride,) * 2,
            "dilate": (dilation,) * 2,
            "pad": (dilation * ((kernel - 1) // 2 if kernel % 2 else 1),) * 2,
        }
        return mx.sym.Convolution(
            data, num_filter=filters, num_group=groups, no_bias=groups > 1, name=self.name(), **sizes
        )

    def norm(self, data: Any) -> Any:
        """Return a BatchNorm whose statistics do not blow up rounding errors."""
        return mx.sym.BatchNorm(data, eps=0.1, fix_gamma=self.choose((False, True)), name=self.name())

    def activation(self, data: Any) -> Any:
        """Return one of the activations, among them those that are several operators."""
        return self.choose(
            (
                lambda: mx.sym.Activation(data, act_type="relu"),
                lambda: mx.sym.relu(data),
                lambda: mx.sym.clip(data, 0, 6),
                lambda: mx.sym.clip(data, -1, 1),
                lambda: data * mx.sym.clip(data + 3, 0, 6) / 6,
                lambda: mx.sym.clip(data + 3, 0, 6) / 6,
                lambda: mx.sym.Activation(data, act_type="sigmoid"),
                lambda: mx.sym.LeakyReLU(data, act_type="gelu"),
            )
        )()


def picture_net(choose: Choose) -> Builder:
    """Return a net over pictures: blocks of convolutions, norms, activations, gates, sums, concats, and a head."""
    channels, size = choose(CHANNELS), choose(SIZES)
    net = Builder(choose, (choose((1, 2, 5)), channels, size, choose((size, size, size + 1))))
    for _ in range(choose((1, 2, 3))):
        net.symbol = _block(net)
    net.symbol = _picture_head(net)
    return net


def _block(net: Builder) -> Any:
    x, choose = net.symbol, net.choose
    channels = net.shape[1]
    filters, kernel, stride = choose(CHANNELS), choose((1, 1, 2, 3, 3, 5, 7, 9)), choose((1, 1, 2))
    dilation = choose((1, 1, 2, 4)) if kernel == 3 else 1
    if choose((False, False, True)):
        filters, groups = channels, choose([each for each in (channels, 4, 2) if channels % each == 0])
        x = net.convolution(x, filters, kernel, stride, groups, dilation)
    elif choose((True, True, True, False)):
        x = net.convolution(x, filters, kernel, stride, dilation=dilation)
    if choose((True, True, False)):
        x = net.norm(x)
    if choose((True, True, True, False)):
        x = net.activation(x)
    net.symbol = x
    return choose((_same, _same, _gated, _summed, _joined, _halved, _doubled))(net, x)


def _same(net: Builder, x: Any) -> Any:
    return x


def _gated(net: Builder, x: Any) -> Any:
    gate = mx.sym.Pooling(x, global_pool=True, kernel=(1, 1), pool_type="avg")
    gate = net.convolution(gate, net.shape[1], 1)
    return mx.sym.broadcast_mul(x, mx.sym.clip(gate + 3, 0, 6) / 6)


def _summed(net: Builder, x: Any) -> Any:
    return x + net.convolution(x, net.shape[1], 1)


def _joined(net: Builder, x: Any) -> Any:
    return mx.sym.concat(x, net.convolution(x, net.choose(CHANNELS), 1), dim=1)


def _halved(net: Builder, x: Any) -> Any:
    if min(net.shape[2:]) < 2:
        return x
    return mx.sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type=net.choose(("max", "avg")))


def _doubled(net: Builder, x: Any) -> Any:
    return mx.sym.Deconvolution(
        x, kernel=(2, 2), stride=(2, 2), num_filter=net.choose(CHANNELS), name=net.name()
    )


def _picture_head(net: Builder) -> Any:
    x = net.symbol

    def pooled(pool_type: str) -> Any:
        return mx.sym.Pooling(x, global_pool=True, kernel=(1, 1), pool_type=pool_type)

    def dense(data: Any) -> Any:
        return mx.sym.FullyConnected(mx.sym.flatten(data), num_hidden=3, name=net.name())

    return net.choose(
        (
            lambda: dense(pooled("avg")),
            lambda: dense(pooled("max")),
            lambda: dense(x),
            lambda: mx.sym.mean(x, axis=(2, 3)),
            lambda: mx.sym.concat(mx.sym.flatten(pooled("avg")), mx.sym.flatten(pooled("max")), dim=1),
            lambda: mx.sym.softmax(x, axis=1),
            lambda: x,
        )
    )()


def sequence_net(choose: Choose) -> Builder:
    """Return a net over series: positions added, LayerNorms, products with smaller arrays, recurrent layers."""
    width = choose((3, 8, 20, 64, 96))
    net = Builder(choose, (choose((1, 2, 9)), choose((1, 4, 33)), width))
    for _ in range(choose((1, 2, 3))):
        net.symbol = choose((_shifted, _scaled, _normalised, _dense, _recurrent))(net)
    return net


def _shifted(net: Builder) -> Any:
    return mx.sym.broadcast_add(
        net.symbol, mx.sym.var(net.name(), shape=(1, *net.shape[1:]), dtype="float32")
    )


def _scaled(net: Builder) -> Any:
    shape = net.choose(((1, 1, net.shape[2]), (net.shape[0], 1, 1), (1, net.shape[1], 1)))
    return mx.sym.broadcast_mul(net.symbol, mx.sym.var(net.name(), shape=shape, dtype="float32"))


def _normalised(net: Builder) -> Any:
    return mx.sym.LayerNorm(net.symbol, eps=0.1, name=net.name())


def _dense(net: Builder) -> Any:
    x = mx.sym.FullyConnected(net.symbol, num_hidden=net.choose((4, 16, 33)), flatten=False, name=net.name())
    return net.activation(x)


def _recurrent(net: Builder) -> Any:
    width, hidden = net.shape[2], net.choose((4, 9, 32))
    name = net.name()
    sizes = {"i2h_weight": (4 * hidden, width), "h2h_weight": (4 * hidden, hidden)}
    sizes.update(i2h_bias=(4 * hidden,), h2h_bias=(4 * hidden,))
    rows = [
        mx.sym.reshape(mx.sym.var(f"{name}_{part}", shape=shape, dtype="float32"), (-1,))
        for part, shape in sizes.items()
    ]
    weights = mx.sym._internal._rnn_param_concat(*rows, dim=0)
    batch = net.shape[0]
    series = mx.sym.swapaxes(net.symbol, 0, 1)
    states = [mx.sym.zeros((1, batch, hidden)) for _ in range(2)]
    return mx.sym.swapaxes(
        mx.sym.RNN(series, weights, *states, state_size=hidden, num_layers=1, mode="lstm"), 0, 1
    )


def plain_and_rewritten(net: Builder) -> list[tuple[Any, Any]]:
    """Return two pairs of the net's graphs, which train and which judge.

    Those of the first are rewritten as far as they must be to be computed at all, those of the second for speed.
    """
    shapes = {"x": net.input_shape}
    plain = graph_rewrites.rewritten(net.symbol, shapes, chosen_rewrites.BEFORE_NARROWING)
    fast = graph_rewrites.rewritten(net.symbol, shapes, chosen_rewrites.rewrites(None))
    purposes = (chosen_rewrites.TRAINING_REWRITES, chosen_rewrites.JUDGING_REWRITES)
    training, judging = (graph_rewrites.rewritten(fast, shapes, each) for each in purposes)
    return [(plain, plain), (training, judging)]


def trained(
    symbol: Any, judging: Any, net: Builder, seed: int, dtype: str = "float32"
) -> dict[str, np.ndarray[Any, Any]]:
    """Return what two graphs of the net compute as Gluon compiles them, by names.

    That is the output, gradients and running statistics of a step by `symbol`, and the output of `judging` after it.
    """
    draw = np.random.RandomState(seed)
    shapes, (output_shape,), states = net.symbol.infer_shape(x=net.input_shape)
    sizes = dict(zip(net.symbol.list_arguments(), shapes))
    array = functools.partial(mx.nd.array, dtype=dtype)
    values = {
        name: array(draw.normal(size=size) / np.sqrt(max(1, np.prod(size[1:]))))
        for name, size in sizes.items()
    }
    values["x"] = array(draw.normal(size=net.input_shape))
    for value in values.values():
        value.attach_grad()
    for name, size in zip(net.symbol.list_auxiliary_states(), states):
        values[name] = array(draw.uniform(0.5, 2, size))
    compute, judge = (
        functools.partial(
            mx.nd.CachedOp(each, [("static_alloc", True), ("static_shape", True)]),
            *(values[name] for name in each.list_inputs()),
        )
        for each in (symbol, judging)
    )
    mx.nd.waitall()
    with mx.autograd.record():
        output = compute()
    output.backward(array(draw.normal(size=output_shape)))
    mx.nd.waitall()
    found = {name: (value if value.grad is None else value.grad).asnumpy() for name, value in values.items()}
    return {**found, "output": output.asnumpy(), "after": judge().asnumpy()}


def answers(net: Builder, seed: int) -> list[np.ndarray[Any, Any]]:
    """Return what the net answers by its graph as it is, and with joined layers; pictures in batches of two sizes."""
    draw = np.random.RandomState(seed)
    plain = graph_rewrites.rewritten(net.symbol, {"x": net.input_shape}, chosen_rewrites.BEFORE_NARROWING)
    joined = joined_layers.for_answers(plain, {"x": net.input_shape})
    shapes, _, states = net.symbol.infer_shape(x=net.input_shape)
    sizes = {
        **dict(zip(net.symbol.list_arguments(), shapes)),
        **dict(zip(net.symbol.list_auxiliary_states(), states)),
    }
    values = {name: mx.nd.array(draw.uniform(-1, 1, size) + 0.1) for name, size in sizes.items()}
    values.update({name: abs(value) + 0.5 for name, value in values.items() if name.endswith("var")})
    found = []
    for symbol in (plain, joined):
        compute = mx.nd.CachedOp(symbol, [("static_alloc", True), ("static_shape", True)])
        # States of recurrent layers are for a batch.
        for size in {net.input_shape[0], 1 if len(net.input_shape) == 4 else net.input_shape[0]}:
            arrays = {**values, "x": values["x"][:size].copy()}
            found.append(compute(*(arrays[name] for name in symbol.list_inputs())).asnumpy())
    return found
