"""`arcface` and `cosface`, with the head of cosines that they need, compared with NumPy's in float64."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from mxtrain.config import autocast_costs
from mxtrain.core.errors import UsageError
from mxtrain.models import losses
from mxtrain.models.autocast.autocast import Autocast
from mxtrain.models.heads import cosine_head
from mxtrain.models.nets import zoo
from mxtrain.models.rewrites import graph_rewrites
from mxtrain.runtime import mx
from tests.support.amp import ALL_NARROW
from tests.support.losses.margin_losses import margin_loss, scaled_cosines

NAMES = ("arcface", "cosface")
nn = mx.gluon.nn


def head_of(weights: np.ndarray, scale: float) -> Any:
    """The head in a net of a single Dense layer, which had a bias before."""
    net = nn.HybridSequential()
    net.add(nn.Dense(weights.shape[0]))
    cosine_head.put(net, "mine", weights.shape[0], scale)
    net.initialize()
    net.hybridize()
    net(mx.nd.zeros((1, weights.shape[1])))
    net[0].weight.set_data(mx.nd.array(weights))
    return net


def found(
    text: str, features: np.ndarray, weights: np.ndarray, label: np.ndarray, scale: float
) -> tuple[np.ndarray, ...]:
    """The losses, and their sum's gradients of features and weights."""
    net, data = head_of(weights, scale), mx.nd.array(features)
    data.attach_grad()
    loss = losses.build(text, 0.0, len(weights))
    with mx.autograd.record():
        result = loss(net(data), mx.nd.array(label))
    result.backward()
    assert result.shape == label.shape and result.dtype == np.float32
    return result.asnumpy(), data.grad.asnumpy(), net[0].weight.grad().asnumpy()


SHAPES = [(2, 1, 3), (7, 9, 5), (50, 4, 16), (10_000, 6, 24)]
SCALES_AND_MARGINS = [(1.0, 0.2), (16.0, 0.5), (64.0, 0.35), (30.0, 0.0), (8.0, 1.0)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("classes", "samples", "width"), SHAPES)
def test_losses_and_gradients_are_the_published_ones(
    name: str, classes: int, samples: int, width: int
) -> None:
    rng = np.random.default_rng(classes)
    for scale, margin in SCALES_AND_MARGINS:
        weights = rng.normal(size=(classes, width)).astype(np.float32)
        features = (rng.normal(size=(samples, width)) * rng.choice([0.01, 1.0, 100.0])).astype(np.float32)
        label = rng.integers(0, classes, samples)
        # Some are near to their class, some opposite it, where the angle and the margin are more than pi.
        nearness = rng.choice([-3.0, 0.0, 3.0], (samples, 1)) * np.abs(features).mean()
        features += (nearness * weights[label]).astype(np.float32)
        result, *gradients = found(f"{name}:scale={scale},margin={margin}", features, weights, label, scale)
        points = [features.astype(np.float64), weights.astype(np.float64)]

        def reference(features: np.ndarray, weights: np.ndarray) -> np.ndarray:
            cosines = scaled_cosines(features, weights, scale)  # noqa: B023
            return margin_loss(name, cosines, label, scale, margin)  # noqa: B023

        np.testing.assert_allclose(result, reference(*points), rtol=2e-5, atol=2e-6 * scale)
        for place, gradient in enumerate(gradients):
            lengths = np.linalg.norm(points[place], axis=1, keepdims=True)
            for _ in range(4):
                direction = np.zeros_like(points[0]), np.zeros_like(points[1])
                direction[place][:] = rng.normal(size=gradient.shape) * lengths / width**0.5
                after, before = (
                    reference(*(point + sign * 1e-5 * along for point, along in zip(points, direction)))
                    for sign in (1, -1)
                )
                numeric = (after - before).sum() / 2e-5
                assert (gradient * direction[place]).sum() == pytest.approx(
                    numeric, rel=1e-3, abs=1e-4 * scale
                )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_gradients_at_cosines_of_1_and_minus_1_are_finite(name: str, sign: float) -> None:
    weights = np.eye(4, dtype=np.float32)
    features = np.concatenate([sign * weights, sign * weights + 1e-7, np.zeros((4, 4), np.float32)])
    label = np.arange(12) % 4
    for array in found(name, features, weights, label, 64.0):
        assert np.isfinite(array).all()
    still = found(name, np.zeros((1, 4), np.float32), 0 * weights, np.zeros(1, int), 64.0)
    assert np.isfinite(np.concatenate([array.ravel() for array in still])).all()


def test_the_loss_falls_as_the_angle_does() -> None:
    """Also beyond half a turn less the margin, where the cosine of the sum would rise again."""
    angles = np.linspace(0.01, math.pi - 0.01, 200)
    output = mx.nd.array(np.stack([16 * np.cos(angles), np.zeros(200)], axis=1))
    result = losses.build("arcface:scale=16,margin=0.5", 0.0, 2)(output, mx.nd.zeros(200)).asnumpy()
    assert (np.diff(result)[angles[1:] > 0.1] > 0).all() and (np.diff(result) >= -1e-6).all()


@pytest.mark.parametrize("name", NAMES)
def test_evaluations_have_no_margin(name: str) -> None:
    output, label = mx.nd.array([[3.0, -2.0, 1.0]]), mx.nd.array([2])
    plain = losses.build("cross_entropy", 0.0, 3)(output, label).asnumpy()
    assert losses.build_plain(name, 3)(output, label).asnumpy() == plain
    assert losses.build(name, 0.0, 3)(output, label).asnumpy() > plain
    np.testing.assert_allclose(
        losses.build(f"{name}:scale=4,margin=0", 0.0, 3)(output, label).asnumpy(), plain, rtol=1e-6
    )


def test_the_head_is_in_float32_under_amp() -> None:
    """Its cosines, times 64, would be wrong by a quarter in bfloat16."""
    net = nn.HybridSequential()
    net.add(nn.Dense(32, activation="relu"), nn.Dense(32))
    cosine_head.put(net, "mine", 32, 64.0)
    times = autocast_costs.of_run("bf16", str(ALL_NARROW), "AVX512_CORE_BF16")
    assert times is not None
    narrowing = Autocast(times)
    graph = graph_rewrites.rewritten(net(mx.sym.var("data")), {"data": (64, 32)}, [narrowing])
    nodes = json.loads(graph.tojson(remove_amp_cast=False))["nodes"]
    kinds = {nodes[node["inputs"][0][0]]["op"] for node in nodes if node["op"] == "FullyConnected"}
    head = [node for node in nodes if node["op"] == "FullyConnected"][-1]
    assert "amp_cast" in kinds and nodes[head["inputs"][0][0]]["op"] != "amp_cast"


def test_a_layer_that_stands_in_two_places_is_replaced_in_both() -> None:
    net = zoo.build("googlenet", 6)
    cosine_head.put(net, "googlenet", 6, 8.0)
    assert isinstance(net.output, cosine_head.CosineHead) and not any("bias" in n for n in net.output.params)


class Ended(mx.gluon.nn.HybridBlock):
    """A net whose last Dense layer is not the end."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Dense(3)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.softmax(self.last(x))


def test_nets_that_do_not_end_in_a_dense_layer_are_refused() -> None:
    with pytest.raises(UsageError, match=r"squeezenet1\.0: a --loss of angles .* has no Dense layer"):
        cosine_head.put(zoo.build("squeezenet1.0", 4), "squeezenet1.0", 4, 8.0)
    with pytest.raises(UsageError, match="is not the last that it computes"):
        cosine_head.put(Ended(), "mine:ended", 3, 8.0)
    net = nn.HybridSequential()
    net.add(nn.Dense(3, activation="relu"))
    with pytest.raises(UsageError, match="has an activation"):
        cosine_head.put(net, "mine:ended", 3, 8.0)
