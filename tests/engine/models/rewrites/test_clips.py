"""Clips in compiled nets are faster operators with the same values and gradients."""

from __future__ import annotations

import numpy as np
import pytest

from mxtrain.models.rewrites import clips, graph_rewrites
from mxtrain.runtime import mx
from tests.support.nets.symbols import computed, net_operators_and_gradients, operators

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


@pytest.mark.parametrize(("least", "most"), [(0, 6), (-1.5, 3), (0, 1e-3), (6, 6)])
def test_values_and_gradients_are_those_of_clip_to_the_bit(least: float, most: float) -> None:
    """At both limits too, where the gradient passes."""
    clip = mx.sym.clip(mx.sym.var("x"), least, most, name="limited")
    fast = graph_rewrites.rewritten(clip, {"x": (len(INPUTS),)}, [clips.with_fast_clips])
    assert "clip" not in operators(fast)
    assert fast.list_outputs() == clip.list_outputs() == ["limited_output"]
    (ours, our_gradient), (right, right_gradient) = (
        computed(each, {"x": INPUTS}, np.full(len(INPUTS), 2)) for each in (fast, clip)
    )
    np.testing.assert_array_equal(ours, right)
    np.testing.assert_array_equal(our_gradient[:-1], right_gradient[:-1])  # of no number there is none


def test_a_compiled_net_has_none_and_the_same_gradients() -> None:
    """Of its first step: this net makes a thousandth of a change of 1e-7 in its input, so curves part at once."""
    plain, expected = net_operators_and_gradients("mobilenetv2_0.25", 32, [])
    fast, ours = net_operators_and_gradients("mobilenetv2_0.25", 32, [clips.with_fast_clips])
    assert "clip" in plain and "clip" not in fast
    assert np.linalg.norm(ours - expected) < 1e-5 * np.linalg.norm(expected)
