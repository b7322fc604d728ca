"""relu6(x + 3) / 6 is one operator in compiled nets, with the same values and gradients but for rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxtrain.models import chosen_rewrites
from mxtrain.models.rewrites import graph_rewrites, hard_sigmoids
from mxtrain.runtime import mx
from tests.support.nets.symbols import computed, net_operators_and_gradients, operators

VALUES = np.linspace(-5, 5, 1001).astype("float32")[1:]  # without the limits, where gradients are either
GRADIENT = np.full(len(VALUES), 2)


def rewritten(symbol: Any) -> Any:
    return graph_rewrites.rewritten(symbol, {"x": VALUES.shape}, [hard_sigmoids.with_hard_sigmoids])


@pytest.mark.parametrize("is_swish", [False, True])
@pytest.mark.parametrize(("shift", "width"), [(3, 6), (1, 2), (-0.5, 4)])
def test_values_and_gradients(shift: float, width: float, is_swish: bool) -> None:
    x = mx.sym.var("x")
    gate = mx.sym.clip(x + shift, 0, width) / width
    symbol = x * gate if is_swish else gate * x.sin()
    fast = rewritten(symbol)
    assert operators(fast) == ["null", "hard_sigmoid", *["sin"] * (not is_swish), "elemwise_mul"]
    assert fast.list_outputs() == symbol.list_outputs()
    for ours, right in zip(*(computed(each, {"x": VALUES + 1e-4}, GRADIENT) for each in (fast, symbol))):
        np.testing.assert_allclose(ours, right, rtol=1e-5, atol=1e-6)


def test_other_chains_stay() -> None:
    x = mx.sym.var("x")
    shifted = x + 3
    limited = mx.sym.clip(shifted, 0, 6)
    parts = mx.sym.split(x, 2, axis=0)
    for symbol in (
        limited / 6,
        limited / 6 + x,
        mx.sym.clip(x, 0, 6) / 6,
        mx.sym.clip(shifted, 0, 6) / 5,
        mx.sym.clip(shifted, -1, 6) / 6,
        mx.sym.Group([limited / 6, limited]),
        mx.sym.Group([limited / 6, shifted]),
        limited / 6 + shifted,
        mx.sym.clip(parts[1] + 3, 0, 6) / 6,
        x / 6,
    ):
        assert rewritten(symbol) is symbol


def test_mobilenetv3_has_them_and_the_same_gradients() -> None:
    fast, ours = net_operators_and_gradients("mobilenetv3_small", 64, chosen_rewrites.rewrites(None))
    plain, right = net_operators_and_gradients("mobilenetv3_small", 64, ())
    assert "hard_sigmoid" in fast and "hard_sigmoid" not in plain
    assert np.linalg.norm(ours - right) < 1e-4 * np.linalg.norm(right)


def test_a_gradient_that_is_shared_is_not_written_over() -> None:
    """MXNet's own is, of which the first half is the proof."""
    draw = np.random.default_rng(0)
    shapes = {"x": (9, 33, 16), "y": (9, 33, 16), "weight": (1, 33 * 16)}
    values = {name: draw.normal(size=shape) for name, shape in shapes.items()}
    rows = mx.sym.reshape(mx.sym.dot(mx.sym.ones((9, 1)), mx.sym.var("weight")), shape=shapes["x"])
    product = mx.sym.var("x") * mx.sym.var("y")
    plain = (mx.sym.hard_sigmoid(product, alpha=1 / 6, beta=0.5) + rows) * mx.sym.var("y")
    mended = graph_rewrites.rewritten(plain, shapes, chosen_rewrites.BEFORE_NARROWING)
    gradient = draw.normal(size=shapes["x"])
    right = (gradient * values["y"]).sum(axis=0).reshape(1, -1)
    for symbol, is_right in ((plain, False), (mended, True)):
        *_, of_weight = computed(symbol, values, gradient)
        assert np.allclose(of_weight, right, atol=1e-4) == is_right
