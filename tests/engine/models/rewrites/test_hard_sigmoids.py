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
    symbol = x * gate if is_swish else gate
    fast = rewritten(symbol)
    assert operators(fast) == ["null", "hard_sigmoid", *["elemwise_mul"] * is_swish]
    assert fast.list_outputs() == symbol.list_outputs()
    for ours, right in zip(*(computed(each, {"x": VALUES + 1e-4}, GRADIENT) for each in (fast, symbol))):
        np.testing.assert_allclose(ours, right, rtol=1e-5, atol=1e-6)


def test_other_chains_stay() -> None:
    x = mx.sym.var("x")
    shifted = x + 3
    limited = mx.sym.clip(shifted, 0, 6)
    parts = mx.sym.split(x, 2, axis=0)
    for symbol in (
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
