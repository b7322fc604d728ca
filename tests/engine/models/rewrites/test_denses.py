"""Dense layers with few inputs or outputs by our operator: the same values and gradients, and others as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxtrain.core.system import kernels
from mxtrain.models.rewrites import graph_rewrites
from mxtrain.models.rewrites.own import denses
from mxtrain.runtime import mx
from mxtrain.runtime.own_operators import DENSE
from tests.support.breadth import slow_cases
from tests.support.nets.symbols import computed, operators
from tests.support.nets.threads import assert_same_bits_of_any_threads, needs_own_operators

pytestmark = needs_own_operators


@pytest.fixture(autouse=True)
def as_with_avx2(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let oneDNN's kernels be those beside which ours are used."""
    monkeypatch.setattr(kernels, "onednn", lambda: denses.KERNELS)


def dense(outputs: int, has_bias: bool = True, **attributes: Any) -> Any:
    data, weight = mx.sym.var("data", dtype="float32"), mx.sym.var("weight")
    bias = {"bias": mx.sym.var("bias")} if has_bias else {"no_bias": True}
    return mx.sym.FullyConnected(
        data, weight, num_hidden=outputs, name="dense", **{"flatten": False, **bias, **attributes}
    )


def rewritten(symbol: Any, values: dict[str, Any]) -> Any:
    shapes = {name: each.shape for name, each in values.items()}
    return graph_rewrites.rewritten(symbol, shapes, [denses.with_own_denses])


def sample(
    rows: tuple[int, ...], inputs: int, outputs: int, has_bias: bool = True
) -> tuple[dict[str, Any], Any]:
    draw = np.random.default_rng(inputs)
    values = {"data": draw.normal(size=(*rows, inputs)), "weight": draw.normal(size=(outputs, inputs))}
    values.update({"bias": draw.normal(size=outputs)} if has_bias else {})
    return values, draw.normal(size=(*rows, outputs))


def exact(values: dict[str, Any], gradient: Any) -> list[Any]:
    data, weight = (values[name].astype(np.float32).astype(np.float64) for name in ("data", "weight"))
    rows, of_rows = data.reshape(-1, data.shape[-1]), gradient.reshape(-1, gradient.shape[-1])
    found = [data @ weight.T, gradient @ weight, of_rows.T @ rows]
    return [found[0] + values["bias"], *found[1:], of_rows.sum(0)] if "bias" in values else found


@pytest.mark.parametrize("has_bias", [True, *slow_cases(False)])
@pytest.mark.parametrize(
    ("rows", "inputs", "outputs"),
    [
        ((1024,), 64, 256),
        ((37, 29), 256, 1024),
        ((1031,), 1024, 16),
        pytest.param((1500,), 16_384, 1, marks=pytest.mark.slow),
        ((17_001,), 2, 512),
        ((5, 7, 31), 256, 64),
    ],
)
def test_values_and_gradients_are_exact(
    rows: tuple[int, ...], inputs: int, outputs: int, has_bias: bool
) -> None:
    values, gradient = sample(rows, inputs, outputs, has_bias)
    ours = rewritten(dense(outputs, has_bias), values)
    assert operators(ours).count(DENSE) == 1 and denses.DENSE_OF_MXNET not in operators(ours)
    for found, right in zip(computed(ours, values, gradient), exact(values, gradient)):
        np.testing.assert_allclose(found, right, rtol=1e-4, atol=2e-6 * np.abs(right).max() + 1e-5)


def test_the_bits_are_those_of_any_number_of_threads() -> None:
    for inputs, outputs in ((128, 512), (512, 128)):
        values, gradient = sample((1111,), inputs, outputs)
        ours = rewritten(dense(outputs), values)
        assert DENSE in operators(ours)
        assert_same_bits_of_any_threads(lambda: computed(ours, values, gradient))  # noqa: B023


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_what_is_no_number_stays_none(number: float) -> None:
    values, gradient = sample((1024,), 64, 256)
    values["data"][70, 3] = number
    found, of_data, of_weight, of_bias = computed(rewritten(dense(256), values), values, gradient)
    assert not np.isfinite(found[70]).any() and np.isfinite(np.delete(found, 70, 0)).all()
    assert not np.isfinite(of_weight[:, 3]).any() and np.isfinite(np.delete(of_weight, 3, 1)).all()
    assert np.isfinite(of_data).all() and np.isfinite(of_bias).all()


def test_gradients_of_what_is_used_twice_add_up() -> None:
    values, gradient = sample((1024,), 128, 128)
    data, weight, bias = (mx.sym.var(name, dtype="float32") for name in values)
    first = mx.sym.FullyConnected(data, weight, bias, num_hidden=128, name="first") + data
    twice = mx.sym.FullyConnected(first, weight, bias, num_hidden=128, name="second") + first
    ours = rewritten(twice, values)
    assert operators(ours).count(DENSE) == 2
    for found, right in zip(computed(ours, values, gradient), computed(twice, values, gradient)):
        np.testing.assert_allclose(found, right, rtol=1e-3, atol=1e-5 * np.abs(right).max())


def test_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    for rows, inputs, outputs in (
        ((512,), 256, 1024),
        ((1024,), 32, 32),
        ((4096,), 512, 512),
        ((4096,), 192, 768),
    ):
        values, _ = sample(rows, inputs, outputs)
        assert DENSE not in operators(rewritten(dense(outputs), values))
    values, _ = sample((2048,), 256, 1024)
    assert DENSE in operators(rewritten(dense(1024, flatten=True), values))
    deep = {**values, "data": np.zeros((2048, 4, 64))}
    assert DENSE not in operators(rewritten(dense(1024, flatten=True), deep))  # its rows are (4, 64)
    monkeypatch.setattr(kernels, "onednn", lambda: "AVX512_CORE")
    assert DENSE not in operators(rewritten(dense(1024), values))
