"""LSTM layers of nets that answer, by our operator: the same values, the same bits of any threads and batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxtrain.models import answers
from mxtrain.models.rewrites import graph_rewrites, joined_layers
from mxtrain.models.rewrites.own import lstms
from mxtrain.runtime import mx
from mxtrain.runtime.own_operators import LSTM
from tests.support.nets.symbols import forward, operators
from tests.support.nets.threads import assert_same_bits_of_any_threads, needs_own_operators

pytestmark = needs_own_operators
rnn = mx.gluon.rnn


def layers(hidden: int, inputs: int, kind: Any = rnn.LSTM, **more: Any) -> Any:
    return kind(hidden, input_size=inputs, **more)(mx.sym.var("data", dtype="float32"))


def rewritten(symbol: Any, shape: tuple[int, ...]) -> Any:
    return graph_rewrites.rewritten(symbol, {"data": shape}, [lstms.with_own_lstms])


def values_of(symbol: Any, shape: tuple[int, ...]) -> dict[str, Any]:
    draw = np.random.default_rng(sum(shape))
    sizes, _, _ = symbol.infer_shape(data=shape)
    return {
        name: mx.nd.array(draw.normal(0, 2 if name == "data" else size[-1] ** -0.5, size))
        for name, size in zip(symbol.list_arguments(), sizes)
    }


@pytest.mark.parametrize("num_layers", [1, 2, 3])
@pytest.mark.parametrize(
    ("shape", "hidden"),
    [((1, 1, 1), 1), ((5, 3, 24), 16), ((7, 33, 70), 37), ((64, 1, 40), 64), ((3, 200, 300), 20)],
    ids=str,
)
def test_values_are_those_of_mxnet(shape: tuple[int, ...], hidden: int, num_layers: int) -> None:
    plain = layers(hidden, shape[2], num_layers=num_layers, dropout=0.2 * (num_layers > 1))
    ours = joined_layers.for_answers(plain, {"data": shape})
    assert LSTM in operators(ours) and "RNN" not in operators(ours)
    for other in (shape, (shape[0] + 2, shape[1] + 7, shape[2])):
        values = values_of(plain, other)
        np.testing.assert_allclose(forward(ours, values), forward(plain, values), rtol=1e-4, atol=2e-6)


def test_the_bits_are_those_of_any_number_of_threads_and_samples() -> None:
    plain = layers(150, 90, num_layers=2)
    ours, values = rewritten(plain, (9, 31, 90)), values_of(plain, (9, 31, 90))
    assert_same_bits_of_any_threads(lambda: [forward(ours, values)])
    whole = forward(ours, values)
    for place in (0, 17, 30):
        alone = {**values, "data": values["data"][:, place : place + 1]}
        assert forward(ours, alone).tobytes() == np.ascontiguousarray(whole[:, place : place + 1]).tobytes()


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_what_is_no_number_stays_none_of_its_sample(number: float) -> None:
    plain = layers(20, 8)
    values = values_of(plain, (6, 4, 8))
    values["data"][3, 2, 5] = np.nan if np.isnan(number) else number
    found, right = forward(rewritten(plain, (6, 4, 8)), values), forward(plain, values)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(right))
    assert np.isfinite(np.delete(found, 2, axis=1)).all()


def test_other_layers_stay() -> None:
    shape = (5, 3, 8)
    data = mx.sym.var("data", dtype="float32")
    net = rnn.LSTM(4, input_size=8)
    passes_states_on = net(data, net.begin_state(func=mx.sym.zeros, batch_size=0))
    begins = net(data, [mx.sym.var("hidden"), mx.sym.var("state")])
    for symbol in (
        layers(4, 8, bidirectional=True),
        layers(4, 8, projection_size=2),
        layers(4, 8, kind=rnn.GRU),
        layers(4, 8, kind=rnn.RNN),
        mx.sym.Group([passes_states_on[0], *passes_states_on[1]]),
        begins[0],
    ):
        assert LSTM not in operators(rewritten(symbol, shape))
    assert LSTM in operators(rewritten(layers(4, 8), shape))


def test_weights_are_put_in_order_once() -> None:
    made = joined_layers.for_answers(layers(16, 24, num_layers=2), {"data": (5, 3, 24)})
    symbol, once = answers.computed_once_apart(made)
    assert operators(symbol) == ["null", "null", LSTM]
    assert once is not None and len(once.list_outputs()) == 1
