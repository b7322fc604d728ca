"""Convolutions of volumes have right gradients in compiled nets, against exact sums."""

from __future__ import annotations

import random
from typing import Any, Sequence

import numpy as np
import pytest

from mxtrain.config import autocast_costs
from mxtrain.core.system import kernels
from mxtrain.models import chosen_rewrites
from mxtrain.models.autocast import wrong_kernels
from mxtrain.models.autocast.autocast import Autocast
from mxtrain.models.rewrites import graph_rewrites
from mxtrain.models.rewrites.repairs import volumes
from mxtrain.runtime import mx
from tests.support.amp import ALL_NARROW, needs_bf16
from tests.support.nets.exact_products import NAMES, Layer, exact, numbers, rounded


def computed(
    layer: Layer, inputs: Any, gradient: Any, rewrites: Sequence[graph_rewrites.Rewrite]
) -> dict[str, Any]:
    """Return the output and the gradients of a rewritten graph."""
    names = NAMES[1:]
    given = {name: mx.nd.array(value) for name, value in zip(names, inputs)}
    for array in given.values():
        array.attach_grad()
    output = mx.sym.Convolution(*map(mx.sym.var, names), name="volume", **layer.attributes)
    fixed = graph_rewrites.rewritten(output, {"data": layer.data}, rewrites)
    assert fixed.list_arguments() == output.list_arguments()
    assert fixed.list_outputs() == output.list_outputs()
    run = mx.nd.CachedOp(fixed, [("static_alloc", True), ("static_shape", True)])
    with mx.autograd.record():
        result = run(*(given[name] for name in fixed.list_arguments()))
    result.backward(mx.nd.array(gradient))
    return {"output": result, **{name: array.grad for name, array in given.items()}}


def layers(how_many: int) -> list[Layer]:
    """Return convolutions with steps and padding in depth; the first three were wrong, each time."""
    known = [
        Layer(1, 16, 32, (3, 5, 5), (2, 1, 3), (3, 1, 1), (1, 1, 1), (1, 0, 1), has_bias=True),
        Layer(4, 3, 48, (2, 5, 6), (2, 3, 1), (2, 1, 2), (1, 1, 1), (1, 1, 0), has_bias=True),
        Layer(1, 16, 32, (4, 6, 7), (3, 2, 2), (3, 1, 2), (1, 1, 1), (1, 1, 0), has_bias=True),
    ]
    rng = random.Random(0)
    for _ in range(how_many):
        kernel = (rng.randint(2, 3), rng.randint(1, 3), rng.randint(1, 3))
        stride = (rng.randint(2, 3), rng.randint(1, 2), rng.randint(1, 2))
        pad = (1, rng.randrange(kernel[1]), rng.randrange(kernel[2]))
        size = tuple(max(1, k - 2 * p) + rng.randint(0, 5) for k, p in zip(kernel, pad))
        channels = rng.choice([3, 8, 16, 31]), rng.choice([8, 16, 48])
        known.append(Layer(rng.randint(1, 4), *channels, size, kernel, stride, (1, 1, 1), pad, has_bias=True))
    return known


@pytest.mark.parametrize(
    "how_many",
    [20, pytest.param(500, marks=pytest.mark.slow)],  # more shapes of the same promise
)
def test_steps_in_depth_have_exact_gradients(how_many: int) -> None:
    for seed, layer in enumerate(layers(how_many)):
        inputs, gradient = numbers(layer, seed)
        found = computed(layer, inputs, gradient, [volumes.with_padded_volumes])
        for name, right in exact(layer, inputs, gradient).items():
            np.testing.assert_array_equal(found[name].asnumpy(), right, err_msg=f"{name} of {layer}")


@needs_bf16
def test_they_stay_float32_and_exact_where_others_run_in_bfloat16() -> None:
    times = autocast_costs.of_run("bf16", str(ALL_NARROW))
    assert times
    for seed, layer in enumerate(layers(5)):
        for depth in (layer.pad[0], 0):
            layer = layer._replace(pad=(depth, *layer.pad[1:]), size=(6, 7, 8))
            stays = wrong_kernels.is_wrong(layer.attributes, layer.data, layer.output, kernels.onednn())
            share = 0 if depth or stays else 1
            narrowing = Autocast(times)
            inputs, gradient = numbers(layer, seed)
            found = computed(layer, inputs, gradient, chosen_rewrites.rewrites(narrowing))
            assert narrowing.forecast.share == share
            for name, right in exact(layer, inputs, gradient).items():
                wanted = rounded(right) if share else right
                np.testing.assert_array_equal(found[name].asnumpy(), wanted, err_msg=f"{name} of {layer}")


def test_other_convolutions_stay() -> None:
    picture = mx.sym.Convolution(mx.sym.var("x"), kernel=(3, 3), stride=(2, 2), pad=(1, 1), num_filter=4)
    volume = mx.sym.Convolution(mx.sym.var("x"), kernel=(3, 3, 3), pad=(1, 1, 1), num_filter=4)
    for symbol, shape in ((picture, (1, 3, 8, 8)), (volume, (1, 3, 8, 8, 8))):
        assert graph_rewrites.rewritten(symbol, {"x": shape}, [volumes.with_padded_volumes]) is symbol
