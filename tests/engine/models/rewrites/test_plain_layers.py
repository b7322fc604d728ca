"""Mobile nets' layers for answers by our operators: MXNet's numbers, the same bits, only where they are right."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from mxtrain.models import answers
from mxtrain.models.nets import zoo
from mxtrain.models.rewrites import joined_layers
from mxtrain.runtime import mx
from mxtrain.runtime.own_operators import (
    EXPANDED,
    FOLDED_NORM,
    GATE,
    GATED_POINTWISE,
    GATED_POINTWISE_SUM,
    POINTWISE,
    POINTWISE_SUM,
)
from mxtrain.train.net import build_net
from tests.support.nets.answering import weights_taken_once
from tests.support.nets.symbols import forward, operators
from tests.support.nets.threads import assert_same_bits_of_any_threads, needs_own_operators

pytestmark = needs_own_operators
OURS = {EXPANDED, GATE, GATED_POINTWISE, GATED_POINTWISE_SUM, POINTWISE, POINTWISE_SUM}
SHAPES = [(2, 3, 7, 7), (3, 5, 14, 14), (1, 9, 13, 11), (4, 16, 8, 9), (1, 4, 30, 33), (5, 24, 3, 2)]
SIZES = [(3, 1, 1), (3, 2, 1), (5, 1, 2), (5, 2, 2), (7, 2, 3)]  # kernel, stride, pad


def activated(data: Any, kind: str | None) -> Any:
    if kind == "relu":
        return mx.sym.relu(data)
    if kind == "relu6":
        return mx.sym.clip(data, 0, 6)
    return data * (mx.sym.clip(data + 3, 0, 6) / 6) if kind == "hard_swish" else data


def layer(data: Any, name: str, channels: int, kind: str | None, **attributes: Any) -> Any:
    """Return a convolution, of 1 x 1 unless `attributes` say otherwise, a norm and an activation."""
    chosen = {"kernel": (1, 1), "no_bias": True, "name": f"{name}conv", **attributes}
    made = mx.sym.Convolution(data, num_filter=channels, **chosen)
    return activated(mx.sym.BatchNorm(made, name=f"{name}norm", fix_gamma=False, eps=1e-2), kind)


def gated(data: Any, channels: int) -> Any:
    means = mx.sym.Pooling(data, global_pool=True, pool_type="avg", kernel=(1, 1))
    first = mx.sym.Convolution(means, num_filter=max(1, channels // 4), kernel=(1, 1), name="first")
    second = mx.sym.Convolution(mx.sym.relu(first), num_filter=channels, kernel=(1, 1), name="second")
    return mx.sym.broadcast_mul(data, mx.sym.clip(second + 3, 0, 6) / 6, name="product")


def block(channels: int, sizes: tuple[int, int, int], kind: str, has_gate: bool) -> Any:
    """Return a block of a mobile net, which expands channels and adds what it takes where it can."""
    (kernel, stride, pad), data = sizes, mx.sym.var("data", dtype="float32")
    inputs = layer(data, "a", channels, None)
    wide = layer(inputs, "b", 2 * channels + 1, kind)
    window = {"kernel": (kernel,) * 2, "stride": (stride,) * 2, "pad": (pad,) * 2}
    deep = layer(wide, "c", 2 * channels + 1, kind, num_group=2 * channels + 1, **window)
    behind = layer(gated(deep, 2 * channels + 1) if has_gate else deep, "d", channels, None)
    return behind + inputs if stride == 1 and 2 * pad + 1 == kernel else behind


def values_of(symbol: Any, shape: tuple[int, ...]) -> dict[str, Any]:
    draw = np.random.default_rng(1)
    sizes, _, states = symbol.infer_shape(data=shape)
    values = {name: draw.normal(0, 1, size) for name, size in zip(symbol.list_arguments(), sizes)}
    for name, size in zip(symbol.list_auxiliary_states(), states):
        values[name] = draw.uniform(0.5, 2, size)
    return {name: mx.nd.array(value) for name, value in values.items()}


def assert_close(found: Any, right: Any) -> None:
    np.testing.assert_allclose(found, right, rtol=1e-3, atol=1e-4 * max(1, np.abs(right).max()))


@pytest.mark.parametrize(("kind", "has_gate"), [("hard_swish", True), ("hard_swish", False), ("relu", True)])
def test_blocks_answer_as_mxnets_operators_do(kind: str, has_gate: bool) -> None:
    for shape, sizes in itertools.product(SHAPES, SIZES):
        if min(shape[2:]) + 2 * sizes[2] < sizes[0]:
            continue
        plain = block(shape[1], sizes, kind, has_gate)
        ours = joined_layers.for_answers(plain, {"data": shape})
        last = (GATED_POINTWISE, POINTWISE) if sizes[1] == 2 else (GATED_POINTWISE_SUM, POINTWISE_SUM)
        assert {EXPANDED, last[0 if has_gate else 1]} <= set(operators(ours))
        assert (GATE in operators(ours)) == has_gate
        values = values_of(plain, shape)
        assert_close(forward(ours, values), forward(plain, values))


def test_what_several_nodes_take_is_computed_for_all_of_them() -> None:
    shape, sizes = (2, 6, 9, 9), (3, 1, 1)
    for name in ("bnorm", "cnorm", "first", "product"):
        plain = block(6, sizes, "hard_swish", True)
        both = mx.sym.concat(
            mx.sym.flatten(plain), mx.sym.flatten(plain.get_internals()[f"{name}_output"] * 2)
        )
        ours, values = joined_layers.for_answers(both, {"data": shape}), values_of(both, shape)
        assert OURS & set(operators(ours))
        assert_close(forward(ours, values), forward(both, values))


@pytest.mark.parametrize("shape", [(5, 12, 7, 7), (3, 7, 30, 17)])
@pytest.mark.parametrize("sizes", [(3, 1, 1), (5, 2, 2)])
def test_the_bits_are_those_of_any_number_of_threads_and_of_any_batch(shape: Any, sizes: Any) -> None:
    plain = block(shape[1], sizes, "hard_swish", True)
    ours, values = joined_layers.for_answers(plain, {"data": shape}), values_of(plain, shape)
    assert_same_bits_of_any_threads(lambda: [forward(ours, values)])
    alone = [forward(ours, {**values, "data": values["data"][at : at + 1].copy()}) for at in range(shape[0])]
    assert np.concatenate(alone).tobytes() == forward(ours, values).tobytes()


def test_what_is_no_number_stays_none() -> None:
    shape = (2, 6, 9, 9)
    for kind in ("hard_swish", "relu"):
        plain = block(6, (3, 1, 1), kind, True)
        values = values_of(plain, shape)
        values["data"][0, 0, 4, 4] = np.nan
        found = forward(joined_layers.for_answers(plain, {"data": shape}), values)
        assert np.isnan(found[0]).all()
        assert np.isfinite(found[1]).all()


@pytest.mark.parametrize(
    "attributes",
    [{"kernel": (3, 3)}, {"stride": (2, 2)}, {"pad": (1, 1)}, {"num_group": 2}, {"no_bias": False}],
)
def test_other_convolutions_stay_mxnets(attributes: dict[str, Any]) -> None:
    shape, data = (2, 6, 9, 9), mx.sym.var("data", dtype="float32")
    deep = layer(data, "a", 6, "hard_swish", kernel=(3, 3), num_group=6)
    plain = layer(deep, "b", 4, None, **attributes)
    ours, values = joined_layers.for_answers(plain, {"data": shape}), values_of(plain, shape)
    assert not {POINTWISE, FOLDED_NORM} & set(operators(ours))
    assert_close(forward(ours, values), forward(plain, values))


def test_a_net_that_onednn_joins_as_a_whole_stays_its_own() -> None:
    ours = joined_layers.for_answers(block(6, (3, 1, 1), "relu6", False), {"data": (2, 6, 9, 9)})
    assert not OURS & set(operators(ours))


def test_weights_are_folded_once_for_pictures_of_any_size() -> None:
    assert weights_taken_once("mobilenetv3_small", [FOLDED_NORM], assert_close)


def test_a_net_that_answers_does_so_on_each_device_by_that_ones_weights_and_trains_as_before() -> None:
    devices = [mx.cpu(0), mx.cpu(1)]
    with build_net.compiling("off"):
        net = zoo.build("mobilenetv3_small", 5)
        net.initialize(mx.init.Xavier(magnitude=12), ctx=devices)
        net.hybridize(static_alloc=True, static_shape=True)
        pictures = [mx.nd.random.normal(shape=(2, 3, 64, 64), ctx=device) for device in devices]
        net(pictures[0])
        last = [each for name, each in net.collect_params().items() if name.endswith("weight")][-1]
        last.data(devices[1])[:] += 1  # what copies of a net that trains never are: different
        right = [net(data).asnumpy() for data in pictures]
        before = _gradient(net, pictures[0], last)
        assert before.any() and np.abs(right[0] - right[1]).max() > np.abs(right[0]).max()
        assert answers.answer_by(net)
        for _ in range(2):  # the second time by what the first has looked up
            for data, expected in zip(pictures, right):
                assert_close(net(data).asnumpy(), expected)
        assert _gradient(net, pictures[0], last).tobytes() == before.tobytes()


def _gradient(net: Any, data: Any, parameter: Any) -> Any:
    with mx.autograd.record(train_mode=False):
        loss = net(data).square().sum()
    loss.backward()
    return parameter.grad(data.context).asnumpy()
