"""Sums, means and the largest along axes before the last, by our operator: the same values and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxtrain.models.rewrites import graph_rewrites
from mxtrain.models.rewrites.own import reductions
from mxtrain.runtime import mx
from mxtrain.runtime.own_operators import REDUCTION
from tests.support.nets.symbols import computed, operators
from tests.support.nets.threads import assert_same_bits_of_any_threads, needs_own_operators

pytestmark = needs_own_operators
DATA = "data"


def reduced(kind: str, **attributes: Any) -> Any:
    return getattr(mx.sym, kind)(mx.sym.var(DATA, dtype="float32"), name="reduced", **attributes)


def rewritten(symbol: Any, shape: tuple[int, ...]) -> Any:
    return graph_rewrites.rewritten(symbol, {DATA: shape}, [reductions.with_fast_reductions])


def sample(symbol: Any, shape: tuple[int, ...]) -> tuple[dict[str, Any], Any]:
    draw = np.random.default_rng(sum(shape))
    data = draw.integers(-9, 9, shape) + draw.normal(size=(1,) * len(shape))  # some of a column are equal
    ((answer,),) = symbol.infer_shape(**{DATA: shape})[1:2]
    return {DATA: data.astype(np.float32)}, draw.normal(size=answer).astype(np.float32)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("kind", ["sum", "mean", "max"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((3, 17, 301), 1), ((1025, 8), 0), ((1, 4096, 9), -2), ((5, 2, 3, 259), 1), ((2, 3, 5, 7, 40), (2,))],
)
def test_values_and_gradients_are_those_of_mxnet(
    shape: tuple[int, ...], axis: Any, kind: str, keepdims: bool
) -> None:
    plain = reduced(kind, axis=axis, keepdims=keepdims)
    ours = rewritten(plain, shape)
    assert REDUCTION in operators(ours) and kind not in operators(ours)
    assert ours.list_outputs() == plain.list_outputs()
    values, gradient = sample(plain, shape)
    for found, right in zip(computed(ours, values, gradient), computed(plain, values, gradient)):
        np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-5)


def test_others_stay() -> None:
    for symbol, shape in (
        (reduced("sum", axis=-1), (64, 128)),
        (reduced("sum"), (64, 128)),
        (reduced("max", axis=(0, 1)), (64, 16, 128)),
        (reduced("sum", axis=1, exclude=True), (64, 16, 128)),
        (reduced("sum", axis=1), (64, 128, 2)),  # little lies side by side
        (reduced("sum", axis=0), (8, 16)),  # few numbers
        (mx.sym.sum(mx.sym.var(DATA), axis=0), (64, 128)),  # of a type that is not known
        (mx.sym.sum(mx.sym.amp_cast(mx.sym.var(DATA), dtype="bfloat16"), axis=0), (64, 128)),
    ):
        assert rewritten(symbol, shape) is symbol


@pytest.mark.parametrize("kind", ["sum", "max"])
def test_the_bits_are_those_of_any_number_of_threads(kind: str) -> None:
    plain = reduced(kind, axis=1)
    values, gradient = sample(plain, (3, 70, 777))
    ours = rewritten(plain, (3, 70, 777))
    assert_same_bits_of_any_threads(lambda: computed(ours, values, gradient))


@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize("kind", ["sum", "mean", "max"])
def test_what_is_no_number_stays_none(kind: str, number: float) -> None:
    plain = reduced(kind, axis=0)
    values, gradient = sample(plain, (70, 60))
    for row in (0, 40, 69):
        values[DATA][row, row % 60] = number
    found, *_ = computed(rewritten(plain, (70, 60)), values, gradient)
    right, *_ = computed(plain, values, gradient)
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(right))
    assert not np.isfinite(found[[0, 40, 9]]).any()


def test_gradients_of_what_is_used_twice_add_up() -> None:
    data = mx.sym.var(DATA, dtype="float32")
    both = mx.sym.broadcast_add(mx.sym.max(data, axis=0, keepdims=True), data * 2) + mx.sym.broadcast_like(
        mx.sym.mean(data, axis=0, keepdims=True), data
    )
    values, gradient = sample(both, (90, 50))
    for found, right in zip(
        computed(rewritten(both, (90, 50)), values, gradient), computed(both, values, gradient)
    ):
        np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-5)
