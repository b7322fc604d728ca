"""Attention by our operator: the same values and gradients, the same bits of any threads, and only where it may be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxtrain.models.nets.gpt import HIDDEN, Gpt
from mxtrain.models.rewrites import graph_rewrites
from mxtrain.models.rewrites.own import attentions
from mxtrain.runtime import mx
from mxtrain.runtime.own_operators import ATTENTION
from tests.support.nets.symbols import computed, operators
from tests.support.nets.threads import assert_same_bits_of_any_threads, needs_own_operators

pytestmark = needs_own_operators
SHAPES = [(1, 1, 1, 1), (7, 3, 2, 5), (48, 1, 1, 16), (49, 2, 2, 33), (97, 1, 3, 64), (256, 2, 2, 24)]


def attention(
    heads: int, is_compared: bool = True, dropout: float = 0.0, adds: str = "of each head", **softmax: Any
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
        shares = mx.sym.Dropout(shares, p=dropout)
    return mx.sym.contrib.interleaved_matmul_selfatt_valatt(projected, shares, heads=heads, name="attention")


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


def test_the_bits_are_those_of_any_number_of_threads() -> None:
    values, gradient = sample(130, 3, 3, 20, "causal")
    ours = rewritten(attention(3), values)
    assert_same_bits_of_any_threads(lambda: computed(ours, values, gradient))


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
        attention(2, dropout=0.1),
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


def test_a_net_of_texts_trains_by_it() -> None:
    """Where texts end comes from its data, of which it asks for no gradient."""
    from mxtrain.models.nets import text_nets, zoo

    tokens, mask = mx.nd.ones((3, 9)), mx.nd.array(np.arange(9)[None] < np.array([[9], [4], [1]]))
    with zoo.rewriting():
        net = text_nets.transformer(20, 3, 9, False, 0.0, layers=2, heads=2, width=8)
        net.initialize()
        net.hybridize(static_alloc=True, static_shape=True)
        with mx.autograd.record():
            net(tokens, mask).sum().backward()
    assert operators(net._cached_op.symbol).count(ATTENTION) == 2


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
