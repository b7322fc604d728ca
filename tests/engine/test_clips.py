"""Clips in compiled nets are faster operators with the same values and gradients."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from mxtrain.models import clips, graph_rewrites, zoo
from mxtrain.runtime import mx

INPUTS = [
    -np.inf,
    -7.0,
    -0.0,
    0.0,
    1e-30,
    3.0,
    np.nextafter(np.float32(6), np.float32(0)),
    6.0,
    6.5,
    np.inf,
    np.nan,
]


def computed(symbol: Any, values: Any) -> tuple[Any, Any]:
    """Return the output, and the gradient of an output whose own gradient is 2."""
    data, gradient = mx.nd.array(values), mx.nd.zeros(len(values))
    bound = symbol.bind(mx.cpu(), {"x": data}, args_grad={"x": gradient})
    (output,) = bound.forward(is_train=True)
    bound.backward(mx.nd.full(len(values), 2))
    return output.asnumpy(), gradient.asnumpy()


@pytest.mark.parametrize(("least", "most"), [(0, 6), (-1.5, 3), (0, 1e-3), (6, 6)])
def test_values_and_gradients_are_those_of_clip_to_the_bit(least: float, most: float) -> None:
    """At both limits too, where the gradient passes."""
    clip = mx.sym.clip(mx.sym.var("x"), least, most, name="limited")
    fast = graph_rewrites.rewritten(clip, {"x": (len(INPUTS),)}, [clips.with_fast_clips])
    assert "clip" not in {node["op"] for node in json.loads(fast.tojson())["nodes"]}
    assert fast.list_outputs() == clip.list_outputs() == ["limited_output"]
    (ours, our_gradient), (right, right_gradient) = computed(fast, INPUTS), computed(clip, INPUTS)
    np.testing.assert_array_equal(ours, right)
    np.testing.assert_array_equal(our_gradient[:-1], right_gradient[:-1])  # of no number there is none


def test_a_compiled_net_has_none_and_the_same_gradients() -> None:
    """Of its first step: this net makes a thousandth of a change of 1e-7 in its input, so curves part at once."""

    def gradients(rewrites: Any) -> Any:
        mx.random.seed(3)
        net = zoo.build("mobilenetv2_0.25", 4)
        net.initialize(mx.init.Xavier(), force_reinit=True)
        graph_rewrites.rewrite_graphs(rewrites)
        net.hybridize(static_alloc=True, static_shape=True)
        with mx.autograd.record():
            loss = (net(mx.nd.random.normal(shape=(4, 3, 32, 32))) ** 2).sum()
        loss.backward()
        operators = {node["op"] for node in json.loads(net._cached_graph[1].tojson())["nodes"]}
        assert ("clip" in operators) == (clips.with_fast_clips not in rewrites)
        trained = [each for each in net.collect_params().values() if each.grad_req != "null"]
        return np.concatenate([each.grad().asnumpy().ravel() for each in trained])

    try:
        expected, ours = gradients([]), gradients([clips.with_fast_clips])
    finally:
        graph_rewrites.rewrite_graphs(zoo.REWRITES)
    assert np.linalg.norm(ours - expected) < 1e-5 * np.linalg.norm(expected)
