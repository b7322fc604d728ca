"""Each translation to ONNX, with the settings that change what it writes, against MXNet itself."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

from mxtrain.core.errors import UsageError
from mxtrain.export.onnx import onnx_graph
from mxtrain.runtime import mx
from tests.support.nets.onnx_answers import assert_agreement, graph_of

pytest.importorskip("onnxruntime")

S, C = mx.sym, mx.sym.contrib
SAMPLES = 2
Expression = Callable[..., Any]

# The shapes of a sample of each input, and what is made of the inputs and of weights `w(shape)`.
PICTURE, SMALL, SERIES, ROW = (3, 7, 6), (4, 4, 5), (5, 6), (6,)
CASES: dict[str, tuple[list[tuple[int, ...]], Expression]] = {
    "unary": (
        [ROW],
        lambda x, w: S.Group(
            [
                getattr(S, each)(x)
                for each in (
                    "relu",
                    "sigmoid",
                    "tanh",
                    "exp",
                    "abs",
                    "floor",
                    "ceil",
                    "erf",
                    "sin",
                    "square",
                    "negative",
                    "softsign",
                    "identity",
                    "sign",
                )
            ]
        ),
    ),
    "unary of positive": (
        [ROW],
        lambda x, w: S.Group(
            [getattr(S, each)(S.abs(x) + 0.5) for each in ("log", "sqrt", "reciprocal", "rsqrt")]
        ),
    ),
    "binary": (
        [ROW, ROW],
        lambda x, y, w: S.Group(
            [
                x + y,
                x - y,
                x * y,
                x / (y + 9),
                S.maximum(x, y),
                S.minimum(x, y),
                S.broadcast_add(x, y),
                S.add_n(x, y, x),
            ]
        ),
    ),
    "broadcast": (
        [PICTURE],
        lambda x, w: S.broadcast_mul(x, w(1, 3, 1, 1)) + S.broadcast_power(S.abs(x) + 1, w(1, 1, 1, 6)),
    ),
    "numbers": (
        [ROW],
        lambda x, w: S.Group(
            [
                x + 2,
                x - 2,
                2 - x,
                x * 3,
                x / 4,
                4 / (x + 9),
                (x + 9) ** 2,
                2**x,
                S.maximum(x, 0.1),
                S.minimum(x, 0.1),
            ]
        ),
    ),
    "infinite numbers": (
        [ROW],
        lambda x, w: S.Group(
            [
                S.clip(S.maximum(x, -np.inf), -np.inf, 0.4),
                x > -np.inf,
                S.minimum(S.broadcast_maximum(x, S.full((1, 6), -np.inf)), np.inf),
                S.where(x > 0, x, x * 0 + np.inf),
                x + np.nan,
            ]
        ),
    ),
    "comparisons": (
        [ROW, ROW],
        lambda x, y, w: S.Group(
            [x > y, x < y, x >= y, x <= y, x == y, x != y, x > 0.1, x == x, S.broadcast_not_equal(x, x)]
        ),
    ),
    "reductions": (
        [SMALL],
        lambda x, w: S.Group(
            [
                S.sum(x, axis=1),
                S.mean(x, axis=(2, 3), keepdims=True),
                S.max(x, axis=-1),
                S.min(x, axis=2),
                S.prod(x, axis=3),
                S.mean(x, axis=0, exclude=True),
            ]
        ),
    ),
    "argmax": ([SERIES], lambda x, w: S.Group([S.argmax(x, axis=2), S.argmin(x, axis=1, keepdims=True)])),
    "clip": ([ROW], lambda x, w: S.clip(x, -0.3, 0.4)),
    "cast": ([ROW], lambda x, w: S.Cast(S.Cast(x * 10, dtype="int32"), dtype="float32")),
    "where": ([ROW, ROW], lambda x, y, w: S.where(x > y, x, y * 2)),
    "filled": (
        [SERIES],
        lambda x, w: S.broadcast_add(S.ones_like(x) + S.zeros_like(x), S.arange(6) + S.zeros((6,))),
    ),
    "cumsum": ([SERIES], lambda x, w: S.cumsum(x, axis=1)),
    "reshape": (
        [SMALL],
        lambda x, w: S.Group(
            [
                S.reshape(x, (0, -3, -2)),
                S.reshape(x, (0, -4, 2, -1, -2)),
                S.reshape(S.reshape(x, (-3, 0, 0)), (-1, 4, 4, 5)),
                S.reshape(x, (0, 0, -1)),
                S.Flatten(x),
                S.reshape(S.reshape(x, (-1, 5), reverse=True), (-1, 80)),
            ]
        ),
    ),
    "axes": (
        [SMALL],
        lambda x, w: S.Group(
            [
                S.transpose(x, (0, 2, 3, 1)),
                S.SwapAxis(x, dim1=1, dim2=3),
                S.expand_dims(x, axis=2),
                S.squeeze(S.expand_dims(x, axis=1), axis=1),
            ]
        ),
    ),
    "grown": (
        [SERIES],
        lambda x, w: S.Group(
            [
                S.broadcast_axis(S.expand_dims(x, axis=1), axis=1, size=3),
                S.tile(x, (1, 2, 3)),
                S.broadcast_like(S.sum(x, axis=1, keepdims=True), x),
            ]
        ),
    ),
    "joined": ([SERIES, SERIES], lambda x, y, w: S.Group([S.concat(x, y, dim=2), S.stack(x, y, axis=1)])),
    "parts": (
        [SMALL],
        lambda x, w: S.Group(
            [
                *S.SliceChannel(x, num_outputs=2, axis=1),
                *S.SliceChannel(
                    S.slice_axis(x, axis=3, begin=1, end=3), num_outputs=2, axis=3, squeeze_axis=True
                ),
            ]
        ),
    ),
    "slices": (
        [SMALL],
        lambda x, w: S.Group(
            [
                S.slice(x, begin=(None, 1, None), end=(None, 3, None)),
                S.slice(x, begin=(None, None, None, 4), end=(None, None, None, None), step=(1, 1, 1, -2)),
                S.slice_axis(x, axis=1, begin=-2, end=None),
                S.slice_like(x, S.slice_axis(x, axis=2, begin=0, end=2), axes=(2,)),
            ]
        ),
    ),
    "padding": (
        [PICTURE],
        lambda x, w: S.Group(
            [
                S.Pad(x, mode="constant", pad_width=(0, 0, 0, 0, 1, 2, 0, 1), constant_value=0.5),
                S.Pad(x, mode="edge", pad_width=(0, 0, 0, 0, 1, 1, 2, 0)),
                S.Pad(x, mode="reflect", pad_width=(0, 0, 0, 0, 1, 1, 2, 1)),
            ]
        ),
    ),
    "take": ([ROW], lambda x, w: S.take(w(9, 4), S.abs(S.round(x)))),
    "convolution": (
        [PICTURE],
        lambda x, w: S.Convolution(
            x,
            w(6, 1, 3, 2),
            w(6),
            kernel=(3, 2),
            num_filter=6,
            num_group=3,
            stride=(2, 1),
            pad=(1, 0),
            dilate=(1, 2),
        ),
    ),
    "convolution of steps": (
        [SERIES],
        lambda x, w: S.Convolution(x, w(4, 5, 3), kernel=(3,), num_filter=4, no_bias=True, pad=(1,)),
    ),
    "deconvolution": (
        [PICTURE],
        lambda x, w: S.Deconvolution(
            x, w(3, 4, 3, 3), kernel=(3, 3), num_filter=4, stride=(2, 2), pad=(1, 1), adj=(1, 1)
        ),
    ),
    "dense": (
        [SERIES],
        lambda x, w: S.Group(
            [
                S.FullyConnected(x, w(4, 30), w(4), num_hidden=4),
                S.FullyConnected(x, w(4, 6), w(4), num_hidden=4, flatten=False),
                S.FullyConnected(x, w(2, 6), num_hidden=2, flatten=False, no_bias=True),
            ]
        ),
    ),
    "products": (
        [SERIES, SERIES],
        lambda x, y, w: S.Group(
            [
                S.batch_dot(x, y, transpose_b=True),
                S.linalg_gemm2(x, y, transpose_a=True, alpha=0.5),
                S.dot(S.Flatten(x), w(4, 30), transpose_b=True),
            ]
        ),
    ),
    "pooling": (
        [PICTURE],
        lambda x, w: S.Group(
            [
                S.Pooling(
                    x,
                    kernel=(3, 2),
                    stride=(2, 2),
                    pad=(1, 0),
                    pool_type=kind,
                    pooling_convention=way,
                    count_include_pad=counts,
                )
                for kind in ("max", "avg")
                for way in ("valid", "full")
                for counts in (True, False)
            ]
        ),
    ),
    "pooling of all": (
        [PICTURE],
        lambda x, w: S.Group([S.Pooling(x, global_pool=True, pool_type=kind) for kind in ("max", "avg")]),
    ),
    "adaptive pooling": (
        [PICTURE],
        lambda x, w: S.Group([C.AdaptiveAvgPooling2D(x, output_size=size) for size in (1, (3, 4), (7, 2))]),
    ),
    "batch norm": (
        [PICTURE],
        lambda x, w: S.Group(
            [
                S.BatchNorm(x, w(3), w(3), w(3, aux=True), w(3, aux=True), fix_gamma=fixed, eps=1e-3)
                for fixed in (True, False)
            ]
        ),
    ),
    "batch norm of the last axis": (
        [PICTURE],
        lambda x, w: S.BatchNorm(x, w(6), w(6), w(6, aux=True), w(6, aux=True), fix_gamma=False, axis=3),
    ),
    "layer norm": (
        [SERIES],
        lambda x, w: S.Group([S.LayerNorm(x, w(6), w(6)), S.LayerNorm(x, w(5), w(5), axis=1, eps=1e-2)]),
    ),
    "group norm": ([SMALL], lambda x, w: S.GroupNorm(x, w(2), w(2), num_groups=2)),
    "instance norm": ([SMALL], lambda x, w: S.InstanceNorm(x, w(4), w(4))),
    "lrn": ([SMALL], lambda x, w: S.LRN(x, nsize=3, alpha=0.1, knorm=1.5)),
    "activations": (
        [SMALL],
        lambda x, w: S.Group(
            [
                *(
                    S.Activation(x, act_type=kind)
                    for kind in ("relu", "sigmoid", "tanh", "softrelu", "softsign")
                ),
                *(S.LeakyReLU(x, act_type=kind, slope=0.2) for kind in ("leaky", "elu", "selu", "gelu")),
                S.LeakyReLU(x, w(4), act_type="prelu"),
                S.hard_sigmoid(x, alpha=0.3, beta=0.4),
            ]
        ),
    ),
    "softmax": (
        [SERIES],
        lambda x, w: S.Group(
            [
                S.softmax(x),
                S.softmax(x, axis=1, temperature=2.0),
                S.log_softmax(x),
                S.SoftmaxActivation(S.Flatten(x)),
            ]
        ),
    ),
    "resizing": (
        [PICTURE],
        lambda x, w: S.Group(
            [
                S.UpSampling(x, scale=2, sample_type="nearest"),
                C.BilinearResize2D(x, height=9, width=4),
                C.BilinearResize2D(x, height=3, width=12),
            ]
        ),
    ),
    "lengths": ([PICTURE], lambda x, w: S.L2Normalization(x, mode="channel", eps=1e-5)),
    "embedding": ([ROW], lambda x, w: S.Embedding(S.abs(S.round(x)), w(9, 4), input_dim=9, output_dim=4)),
    "sequences": (
        [(5,), (4,), (5,)],
        lambda x, y, z, w: S.Group(
            [
                S.SequenceLast(_steps(x, y)),
                S.SequenceLast(_steps(x, y), _lengths(z), use_sequence_length=True),
                S.SequenceReverse(_steps(x, y), _lengths(z), use_sequence_length=True).transpose((1, 0, 2)),
                S.SequenceReverse(_steps(x, y)).transpose((1, 0, 2)),
                S.SequenceMask(_steps(x, y), _lengths(z), use_sequence_length=True, value=-2.0).transpose(
                    (1, 0, 2)
                ),
            ]
        ),
    ),
    "attention": ([(5, 12)], lambda x, w: _attention(S.transpose(x, (1, 0, 2)))),
    "positions": (
        [SERIES],
        lambda x, w: S.broadcast_add(C.div_sqrt_dim(x), S.expand_dims(C.arange_like(x, axis=1), axis=1)),
    ),
}


def _steps(x: Any, y: Any) -> Any:
    """(steps, samples, columns)"""
    return S.transpose(S.broadcast_mul(S.expand_dims(x, axis=2), S.expand_dims(y, axis=1)), (1, 0, 2))


def _lengths(z: Any) -> Any:
    """Between 1 and 5 for each sample."""
    return S.floor(S.sum(z > 0, axis=1) * 0.8) + 1


def _attention(x: Any) -> Any:
    scores = C.interleaved_matmul_selfatt_qk(x, heads=2)
    attended = C.interleaved_matmul_selfatt_valatt(x, S.softmax(scores), heads=2)
    return S.transpose(attended, (1, 0, 2))


class Weights:
    """Variables with values of these shapes, drawn as they are asked for."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self._rng = np.random.default_rng(0)

    def __call__(self, *shape: int, aux: bool = False) -> Any:
        name = f"w{len(self.values)}"
        self.values[name] = self._rng.uniform(0.5, 1.5, shape).astype(np.float32)
        return S.var(name, shape=shape)


@pytest.mark.parametrize("name", CASES)
def test_onnx_computes_what_mxnet_computes(name: str) -> None:
    shapes, expression = CASES[name]
    inputs = {f"x{place}": shape for place, shape in enumerate(shapes)}
    weights, rng = Weights(), np.random.default_rng(1)
    symbol = expression(*map(S.var, inputs), weights)
    values = {each: rng.normal(0, 1, (SAMPLES, *shape)).astype(np.float32) for each, shape in inputs.items()}
    assert_agreement(graph_of(symbol, inputs, weights.values), values)


@pytest.mark.parametrize(
    ("shapes", "expression", "reason"),
    [
        ([PICTURE], lambda x: S.Pooling(x, kernel=(2, 2), pool_type="lp", p_value=2), "its pool_type is lp"),
        ([PICTURE], lambda x: S.topk(S.Flatten(x)), r"of the operator topk \(layer \w+\)"),
        (
            [SERIES],
            lambda x: S.reshape(S.dot(S.Flatten(x), S.Flatten(x), transpose_b=True), (0, 1, -1)),
            "several axes of its shape depend on the number of samples",
        ),
    ],
)
def test_what_onnx_cannot_say_is_refused_with_its_layer(
    shapes: list[tuple[int, ...]], expression: Expression, reason: str
) -> None:
    inputs = {f"x{place}": shape for place, shape in enumerate(shapes)}
    with pytest.raises(UsageError, match=reason):
        onnx_graph.convert(graph_of(expression(*map(S.var, inputs)), inputs, {}), None)
