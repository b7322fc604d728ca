"""LayerNorms train by our operator or by products with ones: the same values, gradients and curves, no less exact."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain import config, native
from mxtrain.models import chosen_rewrites
from mxtrain.models.rewrites import graph_rewrites, layer_norms
from mxtrain.runtime import mx
from mxtrain.runtime.own_operators import LAYER_NORM
from mxtrain.train.context import TrainContext
from tests.support.nets.symbols import computed, operators
from tests.support.nets.threads import assert_same_bits_of_any_threads, needs_own_operators
from tests.support.nets.training_steps import (
    CLASSES,
    FLAGS,
    SIZE,
    arrays,
    assert_equal,
    context_of_run,
    train,
)

EPSILON = 1e-5
SHAPES = [(256, 2), (37, 13), (3, 7, 24), (16, 768), (4, 5000), (20_000, 3), (1, 100_003)]
WIDTH = 32


@pytest.fixture(params=[pytest.param("ours", marks=needs_own_operators), "products"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How LayerNorms train, where the part in C is built and where it is not."""
    if request.param == "products":
        monkeypatch.setattr(native, "OPERATORS", None)
    return str(request.param)


def layer_norm(**attributes: Any) -> Any:
    return mx.sym.LayerNorm(*map(mx.sym.var, ("data", "gamma", "beta")), name="norm", **attributes)


def rewritten(symbol: Any, shape: tuple[int, ...]) -> Any:
    return graph_rewrites.rewritten(symbol, {"data": shape}, [layer_norms.with_fast_layer_norms])


def exact(values: dict[str, Any], gradient: Any) -> list[Any]:
    """Return the same as `computed` from the formulas, in float64."""
    data, gamma, beta, outer = (each.astype("float64") for each in (*values.values(), gradient))
    centred = data - data.mean(-1, keepdims=True)
    inverse = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + EPSILON)
    normed, inner = centred * inverse, outer * gamma
    along = (inner * normed).mean(-1, keepdims=True)
    of_data = inverse * (inner - inner.mean(-1, keepdims=True) - normed * along)
    rows = tuple(range(data.ndim - 1))
    return [normed * gamma + beta, of_data, (outer * normed).sum(rows), outer.sum(rows)]


def sample(shape: tuple[int, ...], mean: float, deviation: float) -> tuple[dict[str, Any], Any]:
    draw = np.random.RandomState(1)
    weights = {"gamma": draw.uniform(0.5, 2, shape[-1]), "beta": draw.normal(size=shape[-1])}
    values = {"data": draw.normal(mean, deviation, shape), **weights}
    gradient = draw.normal(size=shape).astype("float32")
    return {name: each.astype("float32") for name, each in values.items()}, gradient


def largest_errors(found: list[Any], right: list[Any]) -> list[float]:
    return [np.abs(each - other).max() / (np.abs(other).max() + 1e-30) for each, other in zip(found, right)]


@pytest.mark.parametrize(("mean", "deviation"), [(0, 1), (3, 1e-3), (1000, 0.1), (-0.3, 0), (1e-4, 1e-6)])
@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_gradients_are_as_exact_as_those_of_mxnet(
    shape: tuple[int, ...], mean: float, deviation: float, way: str
) -> None:
    """Where rows have a large mean and hardly vary, and where they do not vary at all, too."""
    symbol = layer_norm(eps=EPSILON)
    fast = rewritten(symbol, shape)
    assert "LayerNorm" not in operators(fast) and (LAYER_NORM in operators(fast)) == (way == "ours")
    assert fast.list_inputs() == symbol.list_inputs() and fast.list_outputs() == symbol.list_outputs()
    values, gradient = sample(shape, mean, deviation)
    right = exact(values, gradient)
    ours, theirs = (largest_errors(computed(each, values, gradient), right) for each in (fast, symbol))
    for our, their in zip(ours, theirs):
        assert our <= 2 * their + 1e-6


@needs_own_operators
def test_the_bits_are_those_of_any_number_of_threads() -> None:
    values, gradient = sample((1777, 45), 0.5, 2)
    ours = rewritten(layer_norm(), (1777, 45))
    assert_same_bits_of_any_threads(lambda: computed(ours, values, gradient))


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_what_is_no_number_stays_none(number: float, way: str) -> None:
    values, gradient = sample((64, 20), 0, 1)
    values["data"][12, 3] = number
    normed, of_data, of_gamma, _ = computed(rewritten(layer_norm(), (64, 20)), values, gradient)
    others = np.arange(64) != 12
    assert not np.isfinite(normed[12]).any() and np.isfinite(normed[others]).all()
    assert not np.isfinite(of_data[12]).any() and np.isfinite(of_data[others]).all()
    assert not np.isfinite(of_gamma).any()


def test_gradients_of_what_is_used_twice_add_up(way: str) -> None:
    """As of what comes into a layer, which is also added to what comes out, and of weights of two layers."""
    data, gamma, beta = map(mx.sym.var, ("data", "gamma", "beta"))
    first = mx.sym.LayerNorm(data, gamma, beta, name="first") + data
    twice = mx.sym.LayerNorm(first, gamma, beta, name="second") + first
    values, gradient = sample((40, 24), 0.3, 1)
    for ours, right in zip(
        computed(rewritten(twice, (40, 24)), values, gradient), computed(twice, values, gradient)
    ):
        np.testing.assert_allclose(ours, right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "attributes"),
    [
        ((8, 16, 32), {"axis": 1}),
        ((8, 16, 32), {"axis": 0}),
        ((8, 16, 32), {"output_mean_var": True}),
        ((2, 8), {}),  # few numbers
        ((256, 1), {}),
        ((512,), {}),
    ],
)
def test_other_layer_norms_stay(shape: tuple[int, ...], attributes: dict[str, Any]) -> None:
    symbol = layer_norm(**attributes)
    assert rewritten(symbol, shape) is symbol


def test_weights_decide_about_the_type() -> None:
    """In mixed precision they and the data are cast to float32 before; products of half numbers MXNet has not."""

    def of(gamma: Any) -> Any:
        data, beta = mx.sym.var("data"), mx.sym.var("beta")
        return mx.sym.LayerNorm(mx.sym.amp_cast(data, dtype="float32"), gamma, beta)

    gamma = mx.sym.var("gamma")
    for weights in (mx.sym.var("gamma", dtype="float64"), mx.sym.amp_cast(gamma, dtype="float16")):
        assert "LayerNorm" in operators(rewritten(of(weights), (8, 64)))
    for weights in (mx.sym.var("gamma", dtype="float32"), mx.sym.amp_cast(gamma, dtype="float32")):
        assert "LayerNorm" not in operators(rewritten(of(weights), (8, 64)))


def mixer(num_classes: int) -> Any:
    """Return a net of four patches of a picture, in layers that `--remat` can cut."""
    nn = mx.gluon.nn
    net = nn.HybridSequential()
    with net.name_scope():
        net.add(nn.Conv2D(WIDTH, 4, 4, in_channels=3), nn.HybridLambda(lambda F, x: F.reshape(x, (0, 0, -1))))
        for _ in range(3):
            net.add(nn.HybridLambda(lambda F, x: F.transpose(x, (0, 2, 1))), nn.LayerNorm())
            net.add(nn.Dense(WIDTH, flatten=False), nn.GELU())
        net.add(nn.Flatten(), nn.Dense(num_classes))
    return net


def context_of(flags: str = "") -> TrainContext:
    line = f"--train t.rec --image-size {SIZE} --model {__name__}:mixer {FLAGS} {flags}"
    return context_of_run(config.parse(line.split()), CLASSES)


def test_a_net_learns_along_the_same_curve_and_evaluates_by_its_own_layer_norms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    fast = context_of()
    monkeypatch.setattr(chosen_rewrites, "TRAINING_REWRITES", ())
    plain = context_of()
    of_fast, of_plain = (operators(each.net._cached_op.symbol).count("LayerNorm") for each in (fast, plain))
    assert (of_fast, of_plain) == (0, 3)
    pictures = mx.nd.random.normal(shape=(5, 3, SIZE, SIZE))
    np.testing.assert_array_equal(fast.net(pictures).asnumpy(), plain.net(pictures).asnumpy())
    ours, right = train(fast, 12), train(plain, 12)
    np.testing.assert_allclose(ours, right, rtol=2e-5)
    assert ours != right and ours[-1] < 0.9 * ours[0]
    fast.net.export(str(tmp_path / "net"))
    exported = mx.sym.load(str(tmp_path / "net-symbol.json"))
    assert operators(exported).count("LayerNorm") == 3


def test_recomputed_segments_train_so_too(way: str) -> None:
    plain, again = context_of(), context_of("--remat")
    assert train(again, 3) == train(plain, 3)
    assert_equal(arrays(again), arrays(plain))
    assert all("LayerNorm" not in operators(each._cached_op.symbol) for each in again.net._segments)
