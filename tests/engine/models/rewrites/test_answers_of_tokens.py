"""Nets of tokens answer and are judged by our operators: the same values, without copies, however they are held."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxtrain.models import chosen_rewrites
from mxtrain.models.nets import text_nets
from mxtrain.models.nets.gpt import Gpt
from mxtrain.models.rewrites import graph_rewrites, joined_layers
from mxtrain.runtime import mx
from mxtrain.runtime.own_operators import ATTENTION, LAYER_NORM, REDUCTION
from mxtrain.train.held import choice
from tests.support.nets.held_steps import VOCAB, WINDOW, gpt_job, steps
from tests.support.nets.symbols import forward, operators
from tests.support.nets.threads import needs_own_operators

pytestmark = needs_own_operators
WORDS, LENGTH = 30, 33


def gpt() -> tuple[Any, dict[str, Any]]:
    net = Gpt(WORDS, LENGTH, 0, layers=2, heads=2, width=20, dropout=0.1)
    return net(mx.sym.var("data", dtype="float32")), {"data": (4, LENGTH)}


def text() -> tuple[Any, dict[str, Any]]:
    net = text_nets.transformer(WORDS, 3, LENGTH, False, 0.1, layers=2, heads=2, width=32)
    tokens = mx.sym.var("data", dtype="float32")
    return net(tokens, tokens > 0), {"data": (4, LENGTH)}


def unmasked() -> tuple[Any, dict[str, Any]]:
    """Return attention that adds nothing to scores, and a mean, for sequences of any length."""
    projected = mx.sym.var("data", dtype="float32")
    shares = mx.sym.softmax(mx.sym.contrib.interleaved_matmul_selfatt_qk(projected, heads=2), axis=-1)
    attended = mx.sym.contrib.interleaved_matmul_selfatt_valatt(projected, shares, heads=2)
    return attended.mean(axis=0), {"data": (LENGTH, 8, 96)}


def values_of(symbol: Any, shapes: dict[str, Any]) -> dict[str, Any]:
    draw = np.random.default_rng(3)
    sizes, _, _ = symbol.infer_shape(**shapes)
    values = {name: draw.normal(0, 0.3, size) for name, size in zip(symbol.list_arguments(), sizes) if size}
    data = draw.integers(0, WORDS, shapes["data"]) if len(shapes["data"]) == 2 else values["data"]
    return {name: mx.nd.array(value) for name, value in {**values, "data": data}.items()}


def judged(symbol: Any, shapes: dict[str, Any]) -> Any:
    return graph_rewrites.rewritten(symbol, shapes, chosen_rewrites.JUDGING_REWRITES)


@pytest.mark.parametrize("made", [joined_layers.for_answers, judged])
@pytest.mark.parametrize(
    ("model", "ours"),
    [(gpt, {ATTENTION, LAYER_NORM}), (text, {ATTENTION, LAYER_NORM, REDUCTION}), (unmasked, {ATTENTION})],
)
def test_answers_are_those_of_mxnet_for_any_number_of_samples(model: Any, ours: set[str], made: Any) -> None:
    plain, shapes = model()
    symbol = made(plain, shapes)
    assert ours <= {*operators(symbol)}
    assert not {"softmax", "LayerNorm", "_copy"} & {*operators(symbol)}
    for count in (1, 4, 7):
        axis = 0 if len(shapes["data"]) == 2 else 1
        shape = (*shapes["data"][:axis], count, *shapes["data"][axis + 1 :])
        values = values_of(plain, {"data": shape})
        np.testing.assert_allclose(forward(symbol, values), forward(plain, values), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("made", [joined_layers.for_answers, judged])
def test_what_was_made_for_one_length_answers_of_another(made: Any) -> None:
    plain, shapes = unmasked()
    symbol = made(plain, shapes)
    values = values_of(plain, {"data": (LENGTH + 12, 8, 96)})
    np.testing.assert_allclose(forward(symbol, values), forward(plain, values), rtol=1e-4, atol=1e-4)


def test_the_bits_of_evaluations_are_those_of_any_way_to_hold_the_net() -> None:
    tokens = mx.nd.array(np.random.default_rng(7).integers(0, VOCAB, (5, WINDOW)))
    flags, found = "--micro-batch 4 --optimizer adam", {}
    for way in ("", "--remat", "--stages 2 --devices cpu:0,1", "--hold layers"):
        context = choice.context_of(gpt_job(f"{flags} {way}", dropout=0))
        list(steps(context, 1))
        found[way] = context.net(tokens).asnumpy().tobytes()
    assert len({*found.values()}) == 1
