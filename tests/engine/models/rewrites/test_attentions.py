"""Attention by our operator: the same values and gradients, the same bits of any threads, and only where it may be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxtrain.models.nets.gpt import HIDDEN, Gpt
from mxtrain.models.rewrites import graph_rewrites
from mxtrain.models.rewrites.own import attentions
from mxtrain.runtime import mx
from mxtrain.runtime.own_operators import ATTENTION, DROPPING_ATTENTION
from tests.support.nets.symbols import computed, operators
from tests.support.nets.threads import assert_same_bits_of_any_threads, needs_own_operators

pytestmark = needs_own_operators
SHAPES = [(1, 1, 1, 1), (7, 3, 2, 5), (48, 1, 1, 16), (49, 2, 2, 33), (97, 1, 3, 64), (256, 2, 2, 24)]


def attention(
    heads: int,
    is_compared: bool = True,
    dropout: Any = None,  # of shares, to shares
    adds: str = "of each head",
    **softmax: Any,
) -> Any:
    """Return attention as GPT writes it; what is `seen` is 1 where a token sees another, else 0."""
    projected, seen = mx.sym.var("projected", dtype="float32"), mx.sym.var("seen")
    scores = mx.sym.contrib.interleaved_matmul_selfatt_qk(projected, heads=heads)
    added = ((seen > 0.5 if is_compared else seen) - 1) * HIDDEN
    if adds == "one for all heads":
        scores = mx.sym.broadcast_add(scores, added)
    elif adds == "of each head":
        scores = scores + added
    shares = mx.sym.softmax(scores, axis=-1, name="shares", **softmax)
    if dropout:
        shares = dropout(shares)
    return mx.sym.contrib.interleaved_matmul_selfatt_valatt(projected, shares, heads=heads, name="attention")


def dropping(rate: float, **attributes: Any) -> Any:
    return lambda shares: mx.sym.Dropout(shares, p=rate, **attributes)


def rewritten(symbol: Any, values: dict[str, Any]) -> Any:
    shapes = {name: each.shape for name, each in values.items()}
    return graph_rewrites.rewritten(symbol, shapes, [attentions.with_own_attention])


def sample(length: int, batch: int, heads: int, width: int, kind: str) -> tuple[dict[str, Any], Any]:
    draw = np.random.default_rng(length)
    place = np.arange(length)
    seen = np.ones((batch * heads, length, length))
    if kind != "all":
        seen[:] = place[:, None] >= place
    if kind == "documents":
        seen *= place[:, None] // 10 == place // 10
    if kind == "random":
        seen *= draw.random(seen.shape) < 0.5
    projected = draw.standard_normal((length, batch, 3 * heads * width))
    return {"projected": projected, "seen": seen}, draw.standard_normal((length, batch, heads * width))


@pytest.mark.parametrize("kind", ["all", "causal", "documents", "random", "one for all heads", "nothing"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_and_gradients_are_those_of_mxnet(shape: tuple[int, ...], kind: str) -> None:
    values, gradient = sample(*shape, kind)
    if kind == "one for all heads":
        values["seen"] = values["seen"][:1]
    if kind == "nothing":
        del values["seen"]
    plain = attention(shape[2], adds=kind if kind in ("one for all heads", "nothing") else "of each head")
    ours = rewritten(plain, values)
    assert ATTENTION in operators(ours)
    assert "softmax" not in operators(ours)
    for found, right in zip(computed(ours, values, gradient), computed(plain, values, gradient)):
        np.testing.assert_allclose(found, right, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize(("rate", "batch"), [(0, 3), (0.2, 3), (0.2, 1)])
def test_the_bits_are_those_of_any_number_of_threads(rate: float, batch: int) -> None:
    values, gradient = sample(130, batch, 3, 20, "causal")
    ours = rewritten(attention(3, dropout=rate and dropping(rate)), values)

    def computed_once() -> Any:
        mx.random.seed(4)
        return computed(ours, values, gradient)

    assert_same_bits_of_any_threads(computed_once)


def of_shares(values: dict[str, Any], length: int, heads: int) -> dict[str, Any]:
    """Return the values with ones on the diagonal of each head's, so that what comes out are shares."""
    projected = values["projected"].reshape(length, -1, heads, 3, length).copy()
    projected[:, :, :, 2] = np.eye(length)[:, None, None]
    return {**values, "projected": projected.reshape(length, -1, heads * 3 * length)}


@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 3, 2), (64, 2, 3), (100, 1, 2)], ids=str)
@pytest.mark.parametrize("rate", [0.01, 0.3, 0.9])
def test_dropped_shares_have_no_gradient_and_others_grow(rate: float, shape: tuple[int, ...]) -> None:
    length, batch, heads = shape
    values, gradient = sample(length, batch, heads, length, "documents")
    ours = rewritten(attention(heads, dropout=dropping(rate)), values)
    assert DROPPING_ATTENTION in operators(ours)
    assert not {"Dropout", "softmax"} & {*operators(ours)}

    def shares(symbol: Any) -> Any:
        output, *_ = computed(symbol, of_shares(values, length, heads), gradient)
        return (
            output.reshape(length, batch, heads, length).transpose((1, 2, 0, 3)).reshape((-1, length, length))
        )

    mx.random.seed(7)
    stayed = shares(ours) / np.maximum(shares(attention(heads)), 1e-9)
    # MXNet's shares by what stayed of ours: those of another net, whose every gradient is asked for.
    by_hand = attention(heads, dropout=lambda each: each * mx.sym.BlockGrad(mx.sym.var("stayed")))
    right = computed(by_hand, {**values, "stayed": np.round(stayed * (1 - rate)) / (1 - rate)}, gradient)
    mx.random.seed(7)
    for found, expected in zip(computed(ours, values, gradient), right):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-5 / (1 - rate))


def test_what_is_dropped_is_drawn_for_each_share_by_itself() -> None:
    length, heads = 128, 8
    values, gradient = sample(length, 4, heads, length, "all")
    values = of_shares({**values, "projected": values["projected"] * 0.1}, length, heads)
    ours = rewritten(attention(heads, dropout=dropping(0.25)), values)
    steps = []
    for seed in (1, 2, 2):
        mx.random.seed(seed)
        steps += [
            computed(ours, values, gradient)[0].reshape(length, 4, heads, length) == 0 for _ in range(2)
        ]
    first, next_step, of_seed, _, of_same_seed, _ = (step - 0.25 for step in steps)
    np.testing.assert_array_equal(of_seed, of_same_seed)
    deviation = np.sqrt(0.25 * 0.75)
    assert abs(first.mean()) < 4 * deviation / np.sqrt(first.size)
    others = [next_step, of_seed]
    for axis, size in enumerate(first.shape):
        others += [np.roll(first, shift, axis) for shift in (1, 2, 8) if shift < size]
        each = first.mean(axis=tuple({*range(4)} - {axis}))
        assert (abs(each) < 5 * deviation * np.sqrt(size / first.size)).all()
    for other in others:
        assert abs((first * other).mean()) < 5 * deviation**2 / np.sqrt(first.size)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_what_is_no_number_stays_none(number: float) -> None:
    values, gradient = sample(20, 1, 1, 4, "causal")
    values["projected"][12, 0, 0] = number  # of the query of a token
    output, of_projected, _ = computed(rewritten(attention(1), values), values, gradient)
    assert not np.isfinite(output[12]).any()
    assert np.isfinite(output[:12]).all()
    assert not np.isfinite(of_projected[12, 0, :4]).all()


def test_another_attention_stays_as_it_is() -> None:
    values, _ = sample(5, 1, 2, 4, "causal")
    plain = attention(2)
    inner = plain.get_internals()
    for symbol in (
        attention(2, is_compared=False),  # what is added may have a gradient
        attention(2, dropout=dropping(0.1, mode="always")),
        attention(2, dropout=dropping(0.1, axes=(0,))),
        attention(2, dropout=lambda shares: mx.sym.Dropout(shares, p=0.1) + shares),
        attention(2, temperature=2.0),
        mx.sym.Group([plain, inner["shares_output"]]),
        mx.sym.Group([plain, inner["projected"].sum()]),
    ):
        assert ATTENTION not in operators(rewritten(symbol, values))
    assert ATTENTION in operators(rewritten(plain, values))
    projected = {"projected": values["projected"]}
    without_a_mask = attention(2, adds="nothing")
    assert ATTENTION in operators(rewritten(without_a_mask, projected))
    graph, _ = graph_rewrites.nodes_and_shapes(without_a_mask, {"projected": (5, 1, 24)})
    assert attentions.with_own_attention(graph, {}) is graph  # for which there are no zeros


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_a_net_of_texts_trains_by_it(dropout: float) -> None:
    """Where texts end comes from its data, of which it asks for no gradient."""
    from mxtrain.models.nets import text_nets, zoo

    tokens, mask = mx.nd.ones((3, 9)), mx.nd.array(np.arange(9)[None] < np.array([[9], [4], [1]]))
    with zoo.rewriting():
        net = text_nets.transformer(20, 3, 9, False, dropout, layers=2, heads=2, width=8)
        net.initialize()
        net.hybridize(static_alloc=True, static_shape=True)
        with mx.autograd.record():
            net(tokens, mask).sum().backward()
    assert operators(net._cached_op.symbol).count(DROPPING_ATTENTION if dropout else ATTENTION) == 2


def test_a_net_of_layers_trains_by_it_and_judges_by_mxnets() -> None:
    from mxtrain.models.nets import zoo

    tokens = mx.nd.array(np.random.default_rng(1).integers(0, 50, (4, 33)))
    found = []
    for is_ours in (True, False):
        mx.random.seed(0)
        np.random.seed(0)
        with zoo.rewriting() if is_ours else graph_rewrites.rewriting():
            net = Gpt(50, 33, 0, layers=2, heads=2, width=20)
            net.initialize(mx.init.Normal(0.3))
            net.hybridize(static_alloc=True, static_shape=True)
            for _ in range(2):
                with mx.autograd.record():
                    scores = net(tokens)
                    (scores**2).mean().backward()
            judged = net(tokens).asnumpy()
        gradients = [each.grad().asnumpy() for each in net.collect_params().values()]
        found.append([scores.asnumpy(), judged, *gradients])
        if is_ours:
            assert ATTENTION in operators(net._cached_op.symbol)
            assert ATTENTION not in operators(net._cached_graph[1])
    for ours, right in zip(*found):
        np.testing.assert_allclose(ours, right, rtol=1e-3, atol=1e-5)
