"""Convolutions with channels last for answers: MXNet's numbers, the same bits, only where operators are for them."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest

from mxtrain import native
from mxtrain.models.rewrites import joined_layers
from mxtrain.runtime import mx
from mxtrain.runtime.own_operators import CONVOLUTION, CONVOLUTION_SUM, CONVOLUTION_WEIGHTS
from tests.support.nets.answering import weights_taken_once
from tests.support.nets.symbols import forward, operators, values_of
from tests.support.nets.threads import assert_same_bits_of_any_threads, needs_own_operators

pytestmark = needs_own_operators
OURS = {CONVOLUTION, CONVOLUTION_SUM, *CONVOLUTION_WEIGHTS.values()}
SIDES = [(1, 1), (1, 9), (2, 3), (4, 4), (7, 7), (13, 10), (33, 18)]


def layer(data: Any, name: str, channels: int, is_last: bool = False, **attributes: Any) -> Any:
    """Return a convolution, of 3 x 3 unless `attributes` say otherwise, a norm, and a ReLU unless it is the last."""
    chosen = {"kernel": (3, 3), "pad": (1, 1), "no_bias": True, "name": f"{name}conv", **attributes}
    made = mx.sym.Convolution(data, num_filter=channels, **chosen)
    norm = mx.sym.BatchNorm(made, name=f"{name}norm", fix_gamma=False, eps=1e-2)
    return norm if is_last else mx.sym.relu(norm)


POINT: dict[str, Any] = {"kernel": (1, 1), "pad": (0, 0)}


def blocks(channels: int) -> Any:
    """Return a residual block, one that halves pictures and doubles channels, and one with a bottleneck."""
    data = mx.sym.var("data", dtype="float32")
    first = layer(layer(data, "a", channels), "b", channels, is_last=True)
    first = mx.sym.Activation(first + data, act_type="relu")
    second = layer(layer(first, "c", 2 * channels, stride=(2, 2)), "d", 2 * channels, is_last=True)
    beside = layer(first, "e", 2 * channels, is_last=True, stride=(2, 2), **POINT)
    second = mx.sym.relu(second + beside)
    third = layer(layer(second, "f", channels, **POINT), "g", channels)
    third = layer(third, "h", 2 * channels, is_last=True, no_bias=False, **POINT)
    return mx.sym.relu(third + second)


def assert_close(found: Any, right: Any) -> None:
    np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-5 * max(1, np.abs(right).max()))


def test_blocks_answer_as_mxnets_operators_do() -> None:
    plain = blocks(32)
    for sides, batch in itertools.product(SIDES, (1, 3)):
        shape = (batch, 32, *sides)
        ours, values = joined_layers.for_answers(plain, {"data": shape}), values_of(plain, shape)
        assert operators(ours).count(CONVOLUTION) == 5
        assert operators(ours).count(CONVOLUTION_SUM) == 3
        assert operators(ours).count("transpose") == 2  # at both ends
        assert not {"BatchNorm", "relu", "Activation", "elemwise_add"} & set(operators(ours))
        assert_close(forward(ours, values), forward(plain, values))


@pytest.mark.parametrize(("channels", "shape"), [(64, (5, 64, 9, 14)), (192, (3, 192, 7, 5))])
def test_the_bits_are_those_of_any_number_of_threads_and_of_any_batch(channels: int, shape: Any) -> None:
    plain = blocks(channels)
    ours, values = joined_layers.for_answers(plain, {"data": shape}), values_of(plain, shape)
    assert OURS & set(operators(ours))
    assert_same_bits_of_any_threads(lambda: [forward(ours, values)])
    alone = [forward(ours, {**values, "data": values["data"][at : at + 1].copy()}) for at in range(shape[0])]
    assert np.concatenate(alone).tobytes() == forward(ours, values).tobytes()


@pytest.mark.parametrize(("channels", "tile"), [(64, "4"), (176, "4"), (256, "2")])
def test_rounding_stays_of_the_order_of_mxnets(channels: int, tile: str) -> None:
    shape, data = (2, channels, 8, 8), mx.sym.var("data", dtype="float32")
    plain = layer(data, "a", channels, is_last=True)
    ours, values = joined_layers.for_answers(plain, {"data": shape}), values_of(plain, shape)
    nodes = json.loads(ours.tojson())["nodes"]
    assert [node["attrs"]["tile"] for node in nodes if node["op"] == CONVOLUTION] == [tile]
    wide = {name: mx.nd.array(value, dtype="float64") for name, value in values.items()}
    exact = forward(layer(mx.sym.var("data"), "a", channels, is_last=True), wide)
    assert exact.dtype == np.float64
    size = np.sqrt((exact**2).mean())
    assert np.sqrt(((forward(ours, values) - exact) ** 2).mean()) / size < 2e-6


def test_what_is_no_number_stays_none() -> None:
    shape, plain = (2, 32, 9, 9), blocks(32)
    values = values_of(plain, shape)
    values["data"][0, 0, 4, 4] = np.nan
    found = forward(joined_layers.for_answers(plain, {"data": shape}), values)
    assert np.isnan(found[0]).any(axis=(1, 2)).all()
    assert np.isfinite(found[1]).all()


def test_what_several_nodes_take_is_computed_for_all_of_them() -> None:
    shape, plain = (2, 64, 9, 9), blocks(64)
    for name in ("anorm", "bnorm", "econv", "gnorm"):
        both = mx.sym.concat(
            mx.sym.flatten(plain), mx.sym.flatten(plain.get_internals()[f"{name}_output"] * 2)
        )
        ours, values = joined_layers.for_answers(both, {"data": shape}), values_of(both, shape)
        assert OURS & set(operators(ours))
        assert_close(forward(ours, values), forward(both, values))


@pytest.mark.parametrize(
    ("channels", "attributes"),
    [
        (64, {"dilate": (2, 2), "pad": (2, 2)}),
        (64, {"num_group": 2}),
        (64, {"pad": (0, 0)}),
        (64, {"stride": (3, 3)}),
        (64, {"kernel": (3, 1), "pad": (1, 0)}),
        (72, {}),
        (64, {"stride": (2, 2)}),  # saves no multiplications
        (64, POINT),
        (16, {}),  # costs more to put in order
    ],
)
def test_other_convolutions_stay_mxnets(channels: int, attributes: dict[str, Any]) -> None:
    shape, data = (2, channels, 9, 9), mx.sym.var("data", dtype="float32")
    plain = layer(data, "a", channels, **attributes)
    ours, values = joined_layers.for_answers(plain, {"data": shape}), values_of(plain, shape)
    assert not OURS & set(operators(ours))
    assert_close(forward(ours, values), forward(plain, values))


def test_weights_that_are_computed_stay_mxnets() -> None:
    shape, data = (2, 64, 9, 9), mx.sym.var("data", dtype="float32")
    weight = mx.sym.var("weight", shape=(64, 64, 3, 3)) * 2
    plain = mx.sym.BatchNorm(
        mx.sym.Convolution(data, weight, kernel=(3, 3), pad=(1, 1), num_filter=64, no_bias=True)
    )
    ours, values = joined_layers.for_answers(plain, {"data": shape}), values_of(plain, shape)
    assert not OURS & set(operators(ours))
    assert_close(forward(ours, values), forward(plain, values))


def test_a_convolution_that_takes_more_channels_than_it_gives_begins_no_stretch() -> None:
    shape, data = (2, 512, 9, 9), mx.sym.var("data", dtype="float32")
    plain = layer(layer(data, "a", 128, **POINT), "b", 32)
    ours, values = joined_layers.for_answers(plain, {"data": shape}), values_of(plain, shape)
    assert operators(ours).count(CONVOLUTION) == 1
    assert_close(forward(ours, values), forward(plain, values))


@pytest.mark.parametrize(("channels", "stays"), [(64, True), (320, False)])
def test_what_is_pooled_behind_few_multiplications_stays_mxnets(channels: int, stays: bool) -> None:
    data = mx.sym.var("data", dtype="float32")
    pooled = mx.sym.Pooling(
        layer(data, "a", channels), kernel=(2, 2), stride=(2, 2), pool_type="max", name="pooled"
    )
    shape = (2, channels, 8, 8)
    ours, values = joined_layers.for_answers(pooled, {"data": shape}), values_of(pooled, shape)
    assert (CONVOLUTION not in operators(ours)) == stays
    assert_close(forward(ours, values), forward(pooled, values))


def test_without_operators_graphs_stay_mxnets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "OPERATORS", None)
    assert not OURS & set(operators(joined_layers.for_answers(blocks(64), {"data": (2, 64, 9, 9)})))


def test_weights_are_transformed_once_for_pictures_of_any_size() -> None:
    assert len(weights_taken_once("resnet18_v1b", CONVOLUTION_WEIGHTS.values(), assert_close)) == 19
