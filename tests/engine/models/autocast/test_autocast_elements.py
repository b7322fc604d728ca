"""Operators between convolutions in bfloat16, over shapes, forward and backward, against float32.

A graph of such operators goes through all rewrites, as a net does. Of small whole numbers most have exact results.
"""

from __future__ import annotations

import math
from typing import Any, Iterator, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mxtrain.config import autocast_costs
from mxtrain.core.system import kernels
from mxtrain.models import chosen_rewrites
from mxtrain.models.autocast import wrong_kernels
from mxtrain.models.autocast.autocast import Autocast
from mxtrain.models.rewrites import graph_rewrites
from mxtrain.runtime import mx
from tests.support.amp import ALL_NARROW, needs_bf16
from tests.support.nets.exact_products import memory_that_shows, rounded

pytestmark = needs_bf16

EXACT = ("relu", "max", "global max", "add", "concat")
ROUNDED = ("avg", "global avg", "norm")  # whose results are no whole numbers
TOLERANCE = 0.02  # of an array's length; bfloat16 has 8 bits
SIZES = {1: 14, 2: 14, 3: 6}  # at most, by the number of axes


@pytest.fixture(autouse=True, scope="module")
def _memory() -> Iterator[None]:
    with memory_that_shows():
        yield


class Pool(NamedTuple):
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    pad: tuple[int, ...]
    counts_pad: bool


class Chain(NamedTuple):
    """Operators one after the other, after a convolution that changes no number, and perhaps before another one."""

    operators: tuple[str, ...]
    batch: int
    channels: int
    size: tuple[int, ...]
    pool: Pool
    is_between: bool

    @property
    def is_exact(self) -> bool:
        return set(self.operators) <= set(EXACT)


@st.composite
def chains(draw: st.DrawFn) -> Chain:
    once = {"unique_by": lambda name: name.split()[-1]}  # pooling too
    exact = st.lists(st.sampled_from(EXACT), min_size=1, max_size=3, **once).map(tuple)
    last = st.sampled_from([("relu",), ()])
    operators = draw(
        st.one_of(exact, st.builds(lambda one, more: (one, *more), st.sampled_from(ROUNDED), last))
    )
    # BatchNorm and Concat have oneDNN's kernels for pictures, and Concat for whole blocks of channels.
    axes = 2 if {"norm", "concat"} & set(operators) else draw(st.sampled_from([1, 2, 2, 3]))
    channels = draw(st.sampled_from([16, 32, 48] if "concat" in operators else [1, 3, 8, 12, 16, 31, 40, 64]))
    size = tuple(draw(st.integers(1, SIZES[axes])) for _ in range(axes))
    kernel = tuple(draw(st.integers(1, min(4, each))) for each in size)
    stride, pad = (
        tuple(draw(st.integers(low, high(each))) for each in kernel)
        for low, high in ((1, lambda _: 3), (0, lambda each: each // 2))
    )
    pool = Pool(kernel, stride, pad, draw(st.booleans()))
    return Chain(operators, draw(st.integers(1, 17)), channels, size, pool, draw(st.booleans()))


def unchanged(data: Any, name: str, channels: int, axes: int) -> Any:
    return mx.sym.Convolution(
        data, mx.sym.var(name), kernel=(1,) * axes, num_filter=channels, no_bias=True, name=f"{name}_of"
    )


def symbol_of(chain: Chain) -> Any:
    axes = len(chain.size)
    x = unchanged(mx.sym.var("x"), "w0", chain.channels, axes)
    second, channels = unchanged(mx.sym.var("y"), "w1", chain.channels, axes), chain.channels
    for operator in chain.operators:
        kind = operator.split()[-1]
        if operator == "relu":
            x = mx.sym.Activation(x, act_type="relu")
        elif operator in ("max", "avg"):
            kernel, stride, pad, counts_pad = chain.pool
            kinds = {"pool_type": kind, "count_include_pad": counts_pad}
            x, second = (
                mx.sym.Pooling(each, kernel=kernel, stride=stride, pad=pad, **kinds) for each in (x, second)
            )
        elif operator.startswith("global"):
            x, second = (
                mx.sym.Pooling(each, kernel=(1,) * axes, global_pool=True, pool_type=kind)
                for each in (x, second)
            )
        elif operator == "add":
            x = x + second if channels == chain.channels else x + x
        elif operator == "concat":
            x, channels = mx.sym.concat(x, second, dim=1), channels + chain.channels
        else:
            x = mx.sym.BatchNorm(x, name="norm", fix_gamma=False, eps=1e-3)
    if chain.is_between:
        x = unchanged(x, "w2", channels, axes)
    return x


def values_of(chain: Chain, symbol: Any, seed: int) -> dict[str, np.ndarray]:
    """Return what the graph is computed of: whole numbers whose sums are exact in bfloat16, or any."""
    rng = np.random.default_rng(seed)
    data = (chain.batch, chain.channels, *chain.size)
    shapes, _, aux = symbol.infer_shape(x=data, **({"y": data} if "y" in symbol.list_arguments() else {}))
    values = {name: np.zeros(shape) for name, shape in zip(symbol.list_auxiliary_states(), aux)}
    for name, shape in zip(symbol.list_arguments(), shapes):
        if name in ("x", "y"):
            values[name] = rng.integers(-6, 7, shape) if chain.is_exact else rng.standard_normal(shape)
        elif name.startswith("w"):
            values[name] = np.eye(shape[0]).reshape(shape)
        else:
            values[name] = rng.standard_normal(shape) + 2  # of a norm
    return {name: rounded(value) if name in ("x", "y") else value for name, value in values.items()}


def results(symbol: Any, values: dict[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """Return the output, the gradients of all but the weights that change nothing, and running statistics."""
    given = {name: mx.nd.array(value) for name, value in values.items()}
    learnt = [name for name in symbol.list_arguments() if not name.startswith("w")]
    for name in learnt:
        given[name].attach_grad()
    run = mx.nd.CachedOp(symbol, [("static_alloc", True), ("static_shape", True)])
    with mx.autograd.record():
        output = run(*(given[name] for name in symbol.list_inputs()))
    output.backward(mx.nd.array(np.random.default_rng(seed).integers(-1, 2, output.shape)))
    gradients = {name: given[name].grad.asnumpy() for name in learnt}
    moved = {name: given[name].asnumpy() for name in symbol.list_auxiliary_states()}
    return {
        "output": output.asnumpy(),
        **gradients,
        **{f"moved {name}": value for name, value in moved.items()},
    }


def narrowed(symbol: Any, values: dict[str, np.ndarray]) -> tuple[Any, set[str]]:
    """Return the graph as a net's would be in bfloat16, and the operators that are float32 there."""
    times = autocast_costs.of_run("bf16", str(ALL_NARROW))
    assert times
    shapes = {name: value.shape for name, value in values.items()}
    symbol = graph_rewrites.rewritten(symbol, shapes, chosen_rewrites.rewrites(Autocast(times)))
    graph, _ = graph_rewrites.nodes_and_shapes(symbol, shapes)
    narrow = graph_rewrites.in_bfloat16(graph)
    wide = {node["op"] for place, node in enumerate(graph["nodes"]) if place not in narrow}
    return symbol, wide - {"null", "amp_cast"}


def has_wrong_kernels(symbol: Any, values: dict[str, np.ndarray]) -> bool:
    """Return whether a convolution of the graph has to stay float32."""
    graph, shapes = graph_rewrites.nodes_and_shapes(
        symbol, {name: each.shape for name, each in values.items()}
    )
    return any(
        wrong_kernels.is_wrong(
            node["attrs"],
            graph_rewrites.shape_of(graph, shapes, *node["inputs"][0][:2]),
            graph_rewrites.shape_of(graph, shapes, place, 0),
            kernels.onednn(),
        )
        for place, node in enumerate(graph["nodes"])
        if node["op"] == "Convolution"
    )


@given(chain=chains(), seed=st.integers(0, 99))
def test_operators_between_convolutions_are_right(chain: Chain, seed: int) -> None:
    symbol = symbol_of(chain)
    values = values_of(chain, symbol, seed)
    narrow, wide = narrowed(symbol, values)
    assert wide == set() or has_wrong_kernels(symbol, values)
    found, expected = results(narrow, values, seed), results(symbol, values, seed)
    for name, value in expected.items():
        if chain.is_exact:
            np.testing.assert_array_equal(found[name], value, err_msg=f"{name} of {chain}")
        else:
            apart = np.linalg.norm(found[name] - value) / (
                np.linalg.norm(value) + 1e-3 * math.sqrt(value.size)
            )
            assert apart < TOLERANCE, f"{name} of {chain} is off by {apart:.3f} of itself"
