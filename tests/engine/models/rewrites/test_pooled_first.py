"""A mean behind a convolution of 1 x 1 is computed before it where both orders give the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxtrain.models.rewrites import graph_rewrites, joined_layers, pooled_first
from mxtrain.runtime import mx
from tests.support.nets.symbols import answered, operators

SHAPE = (3, 6, 9, 7)


def convolved(**attributes: Any) -> Any:
    chosen = {"num_filter": 4, "kernel": (1, 1), **attributes}
    return mx.sym.Convolution(mx.sym.var("x", dtype="float32"), name="convolution", **chosen)


def pooled(data: Any, **attributes: Any) -> Any:
    chosen = {"pool_type": "avg", "kernel": (2, 2), "stride": (2, 2), **attributes}
    return mx.sym.Pooling(data, name="mean", **chosen)


def assert_same_answers(ours: Any, plain: Any) -> None:
    for found, right in zip(answered(ours, plain, SHAPE), answered(plain, plain, SHAPE)):
        np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kernel", [(2, 2), (3, 2)])
@pytest.mark.parametrize("no_bias", [True, False])
def test_the_mean_comes_first(kernel: tuple[int, int], no_bias: bool) -> None:
    plain = mx.sym.relu(pooled(convolved(no_bias=no_bias), kernel=kernel))
    ours = graph_rewrites.rewritten(plain, {"x": SHAPE}, [pooled_first.with_pooling_first])
    found = [name for name in operators(ours) if name != "null"]
    assert found == ["Pooling", "Convolution", "relu"]
    assert ours.list_outputs() == plain.list_outputs()
    assert_same_answers(ours, plain)
    assert_same_answers(joined_layers.for_answers(plain, {"x": SHAPE}), plain)


def test_others_stay_as_they_are() -> None:
    one = convolved()
    for plain in (
        pooled(convolved(kernel=(3, 3))),
        pooled(convolved(stride=(2, 2))),
        pooled(convolved(pad=(1, 1))),
        pooled(convolved(num_group=2)),
        pooled(mx.sym.relu(one)),
        mx.sym.Group([pooled(one), mx.sym.relu(one)]),
        mx.sym.Group([pooled(one), one]),
        pooled(one, pool_type="max"),
        pooled(one, pad=(1, 1)),
        pooled(one, pooling_convention="full"),
        pooled(one, stride=(1, 1)),
        pooled(one, global_pool=True),
    ):
        ours = graph_rewrites.rewritten(plain, {"x": SHAPE}, [pooled_first.with_pooling_first])
        assert operators(ours) == operators(plain)
        assert_same_answers(joined_layers.for_answers(plain, {"x": SHAPE}), plain)
