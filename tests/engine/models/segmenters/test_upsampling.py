"""Maps are enlarged as MXNet's own operator does it, forward and back, in pictures of any size."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

from mxtrain.models.segmenters.upsampling import pixels_like, upsampled_like
from mxtrain.runtime import mx

SIZES = [((4, 6), (9, 17)), ((1, 1), (5, 3)), ((3, 1), (1, 4)), ((6, 5), (6, 5)), ((12, 12), (5, 7))]


@pytest.mark.parametrize(("old", "new"), SIZES)
def test_values_and_gradients_are_those_of_mxnets_operator(
    old: tuple[int, int], new: tuple[int, int]
) -> None:
    draw = np.random.RandomState(1)
    maps, other = mx.nd.array(draw.normal(size=(2, 3, *old))), mx.nd.zeros((1, 1, *new))
    gradient = mx.nd.array(draw.normal(size=(2, 3, *new)))
    ways: list[Callable[[Any], Any]] = [
        lambda x: upsampled_like(mx.nd, x, other),
        lambda x: pixels_like(mx.nd, x, other).transpose((0, 3, 1, 2)),
        lambda x: mx.nd.contrib.BilinearResize2D(x, height=new[0], width=new[1]),
    ]
    found = []
    for enlarge in ways:
        maps.attach_grad()
        with mx.autograd.record():
            enlarged = enlarge(maps)
        enlarged.backward(gradient)
        found.append((enlarged.asnumpy(), maps.grad.asnumpy()))
    *both, right = found
    for ours, theirs in ((one, other) for each in both for one, other in zip(each, right)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_a_compiled_graph_takes_maps_of_any_size() -> None:
    class Enlarge(mx.gluon.HybridBlock):
        def hybrid_forward(self, F: object, maps: object, other: object) -> object:
            return upsampled_like(F, maps, other)

    net = Enlarge()
    net.hybridize(static_alloc=True, static_shape=True)
    for old, new in SIZES:
        maps = mx.nd.random.normal(shape=(1, 2, *old))
        wanted = mx.nd.contrib.BilinearResize2D(maps, height=new[0], width=new[1])
        np.testing.assert_allclose(
            net(maps, mx.nd.zeros((1, 1, *new))).asnumpy(), wanted.asnumpy(), rtol=1e-5, atol=1e-5
        )
