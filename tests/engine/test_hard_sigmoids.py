"""relu6(x + 3) / 6 is one operator in compiled nets, with the same values and gradients but for rounding."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from mxtrain.models import graph_rewrites, hard_sigmoids, zoo
from mxtrain.runtime import mx

VALUES = np.linspace(-5, 5, 1001).astype("float32")[1:]  # without the limits, where gradients are either


def rewritten(symbol: Any) -> Any:
    return graph_rewrites.rewritten(symbol, {"x": VALUES.shape}, [hard_sigmoids.with_hard_sigmoids])


def operators(symbol: Any) -> list[str]:
    return [node["op"] for node in json.loads(symbol.tojson())["nodes"]]


def computed(symbol: Any) -> tuple[Any, Any]:
    """Return the output and the gradient."""
    data, gradient = mx.nd.array(VALUES + 1e-4), mx.nd.zeros(len(VALUES))
    bound = symbol.bind(mx.cpu(), {"x": data}, args_grad={"x": gradient})
    (output,) = bound.forward(is_train=True)
    bound.backward(mx.nd.full(len(VALUES), 2))
    return output.asnumpy(), gradient.asnumpy()


@pytest.mark.parametrize("is_swish", [False, True])
@pytest.mark.parametrize(("shift", "width"), [(3, 6), (1, 2), (-0.5, 4)])
def test_values_and_gradients(shift: float, width: float, is_swish: bool) -> None:
    x = mx.sym.var("x")
    gate = mx.sym.clip(x + shift, 0, width) / width
    symbol = x * gate if is_swish else gate
    fast = rewritten(symbol)
    assert operators(fast) == ["null", "hard_sigmoid", *["elemwise_mul"] * is_swish]
    assert fast.list_outputs() == symbol.list_outputs()
    for ours, right in zip(computed(fast), computed(symbol)):
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
    def gradients(rewrites: Any) -> Any:
        mx.random.seed(3)
        net = zoo.build("mobilenetv3_small", 4)
        net.initialize(mx.init.Xavier(), force_reinit=True)
        graph_rewrites.rewrite_graphs(rewrites)
        net.hybridize(static_alloc=True, static_shape=True)
        net(mx.nd.zeros((1, 3, 64, 64)))
        mx.random.seed(4)
        with mx.autograd.record():
            loss = (net(mx.nd.random.normal(shape=(4, 3, 64, 64))) ** 2).sum()
        loss.backward()
        has = "hard_sigmoid" in operators(net._cached_graph[1])
        named = [p for p in net.collect_params().values() if p.grad_req != "null"]
        return has, np.concatenate([p.grad().asnumpy().ravel() for p in named])

    try:
        (is_fast, ours), (is_plain, right) = gradients(zoo.REWRITES), gradients(())
    finally:
        graph_rewrites.rewrite_graphs(zoo.REWRITES, zoo.TRAINING_REWRITES)
    assert is_fast and not is_plain
    assert np.linalg.norm(ours - right) < 1e-4 * np.linalg.norm(right)
