"""Sums and products with a smaller array train by products with ones: the same values, gradients and curves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain import config
from mxtrain.models import chosen_rewrites
from mxtrain.models.rewrites import broadcasts, graph_rewrites
from mxtrain.runtime import mx
from mxtrain.train.context import TrainContext
from tests.support.nets.symbols import computed, operators
from tests.support.nets.training_steps import CLASSES, FLAGS, SIZE, context_of_run, train

LARGE = (8, 16, 8, 8)
OPERATORS = ["broadcast_add", "broadcast_mul"]


def smaller_with(
    operator: str, small: tuple[int, ...], is_first: bool = False, dtype: str = "float32"
) -> Any:
    inputs = [mx.sym.var("large"), mx.sym.var("small", shape=small, dtype=dtype)]
    return getattr(mx.sym, operator)(*(inputs[::-1] if is_first else inputs), name="joined")


def rewritten(symbol: Any, large: tuple[int, ...] = LARGE) -> Any:
    return graph_rewrites.rewritten(symbol, {"large": large}, [broadcasts.with_fast_broadcasts])


@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize(
    "small",
    [(1, 16, 8, 8), (16, 8, 8), (8,), (1,), (8, 16, 1, 1), (8, 16, 8, 1), (8, 1, 8, 8), (8, 1, 1, 8)],
)
def test_values_are_the_same_and_gradients_to_rounding(
    operator: str, small: tuple[int, ...], is_first: bool
) -> None:
    symbol = smaller_with(operator, small, is_first)
    fast = rewritten(symbol)
    assert operator not in operators(fast)
    assert fast.list_inputs() == symbol.list_inputs() and fast.list_outputs() == symbol.list_outputs()
    draw = np.random.RandomState(1)
    values = {"large": draw.normal(size=LARGE), "small": draw.normal(size=small)}
    gradient = draw.normal(size=LARGE)
    ours, right = (computed(each, values, gradient) for each in (fast, symbol))
    np.testing.assert_array_equal(ours[0], right[0])
    np.testing.assert_array_equal(ours[1], right[1])  # of the large one
    np.testing.assert_allclose(ours[2], right[2], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("large", "small", "dtype"),
    [
        (LARGE, (1, 16, 1, 1), "float32"),  # what it lacks lies apart
        ((8, 16, 2, 2), (8, 16, 1, 1), "float32"),  # few numbers
        ((64, 64, 2, 2), (64, 1, 1, 2), "float32"),  # many products of few numbers
        (LARGE, (8, 16, 1, 1), "float64"),
        (LARGE, (8, 16, 1, 1), "int32"),
        (LARGE, LARGE, "float32"),
    ],
)
def test_others_stay(large: tuple[int, ...], small: tuple[int, ...], dtype: str) -> None:
    symbol = smaller_with("broadcast_mul", small, dtype=dtype)
    assert rewritten(symbol, large) is symbol


def test_arrays_of_unknown_type_stay() -> None:
    """Such as numbers of tokens, of which MXNet multiplies no matrices."""
    symbol = mx.sym.broadcast_add(mx.sym.var("large"), mx.sym.var("small", shape=(8, 16, 1, 1)))
    assert rewritten(symbol) is symbol


class Gated(mx.gluon.nn.HybridBlock):  # type: ignore[misc]
    """Squeeze and excitation: each channel times a number that all channels give."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.gate = mx.gluon.nn.Conv2D(16, 1, in_channels=16, activation="sigmoid")

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.broadcast_mul(x, self.gate(F.contrib.AdaptiveAvgPooling2D(x, output_size=1)))


def gated_net(num_classes: int) -> Any:
    nn = mx.gluon.nn
    net = nn.HybridSequential()
    with net.name_scope():
        net.add(nn.Conv2D(16, 3, padding=1, in_channels=3), nn.BatchNorm(), Gated(), nn.Activation("relu"))
        net.add(nn.Conv2D(16, 3, padding=1), nn.BatchNorm(), Gated(), nn.Flatten(), nn.Dense(num_classes))
    return net


def context_of(flags: str = "") -> TrainContext:
    line = f"--train t.rec --image-size {SIZE} --model {__name__}:gated_net {FLAGS} {flags}"
    return context_of_run(config.parse(line.split()), CLASSES)


def test_a_net_learns_along_the_same_curve_with_short_steps_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = context_of()
    monkeypatch.setattr(chosen_rewrites, "TRAINING_REWRITES", ())
    plain = context_of()
    curves = []
    for context in (fast, plain):  # 14 samples: the last micro-batch has two
        curves.append([*train(context, 4), *train(context, 2, num_samples=14), *train(context, 4)])
    np.testing.assert_allclose(*curves, rtol=2e-5)
    assert curves[0][-1] < curves[0][0]
    assert "dot" in operators(fast.net._cached_op.symbol)
    fast.net.export(str(tmp_path / "net"))
    exported = operators(mx.sym.load(str(tmp_path / "net-symbol.json")))
    assert exported.count("broadcast_mul") == 2 and "dot" not in exported


def test_other_shapes_are_compiled_anew_once(monkeypatch: pytest.MonkeyPatch) -> None:
    context, shapes = context_of(), []
    real = context.net._cached_op._rewrite

    def seen(purpose: str, symbol: Any, of: Any) -> Any:
        shapes.append(of["data"])
        return real(purpose, symbol, of)

    context.net._cached_op._rewrite = seen
    train(context, 2)
    assert shapes == []
    train(context, 1, num_samples=14)
    assert shapes == [(2, 3, SIZE, SIZE)]
    train(context, 2)
    assert shapes == [(2, 3, SIZE, SIZE), (4, 3, SIZE, SIZE)]


@pytest.mark.parametrize("flags", ["--remat", "--devices cpu:0,1"])
def test_recomputed_segments_and_devices_train_so_too(flags: str) -> None:
    plain, other = context_of(), context_of(flags)
    np.testing.assert_allclose(train(other, 3), train(plain, 3), rtol=1e-5)
    blocks = getattr(other.net, "_segments", [other.net])
    assert any("dot" in operators(each._cached_op.symbol) for each in blocks)
