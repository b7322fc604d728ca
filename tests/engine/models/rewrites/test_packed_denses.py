"""Large dense layers of nets that answer, by our operator: the same values, the same bits of any threads and rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxtrain.core.system import kernels
from mxtrain.models import answers
from mxtrain.models.rewrites import graph_rewrites, joined_layers
from mxtrain.models.rewrites.own import packed_denses
from mxtrain.runtime import mx
from mxtrain.runtime.own_operators import PACKED_DENSE, PACKED_WEIGHTS
from tests.support.nets.symbols import forward, operators
from tests.support.nets.threads import assert_same_bits_of_any_threads, needs_own_operators

pytestmark = needs_own_operators
INPUTS, OUTPUTS = 96, 11_003


@pytest.fixture(autouse=True)
def as_with_avx2(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let oneDNN's kernels be those beside which ours are used."""
    monkeypatch.setattr(kernels, "onednn", lambda: packed_denses.KERNELS)


def dense(outputs: int = OUTPUTS, **attributes: Any) -> Any:
    data = mx.sym.var("data", dtype="float32")
    return mx.sym.FullyConnected(data, num_hidden=outputs, flatten=False, name="dense", **attributes)


def values_of(symbol: Any, shape: tuple[int, ...]) -> dict[str, Any]:
    draw = np.random.default_rng(sum(shape))
    sizes, _, _ = symbol.infer_shape(data=shape)
    return {name: mx.nd.array(draw.normal(size=size)) for name, size in zip(symbol.list_arguments(), sizes)}


def rewritten(symbol: Any, shape: tuple[int, ...]) -> Any:
    return graph_rewrites.rewritten(symbol, {"data": shape}, [packed_denses.with_packed_denses])


@pytest.mark.parametrize("no_bias", [False, True])
@pytest.mark.parametrize("shape", [(1, INPUTS), (7, INPUTS), (3, 5, INPUTS), (401, INPUTS)], ids=str)
def test_values_are_those_of_mxnet(shape: tuple[int, ...], no_bias: bool) -> None:
    plain = dense(no_bias=no_bias)
    ours = joined_layers.for_answers(plain, {"data": shape})
    assert PACKED_DENSE in operators(ours)
    values = values_of(plain, shape)
    np.testing.assert_allclose(forward(ours, values), forward(plain, values), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("rows", "outputs"), [(213, OUTPUTS), (900, 11_008)], ids=["", "written past the caches"]
)
def test_the_bits_are_those_of_any_number_of_threads_and_rows(rows: int, outputs: int) -> None:
    plain, shape = dense(outputs), (rows, INPUTS)
    ours, values = rewritten(plain, shape), values_of(plain, shape)
    assert_same_bits_of_any_threads(lambda: [forward(ours, values)])
    whole = forward(ours, values)
    for first, end in ((0, 1), (rows - 1, rows), (7, 9), (5, 8), (3, 20)):
        few = {**values, "data": values["data"][first:end]}
        assert forward(ours, few).tobytes() == whole[first:end].tobytes()


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_what_is_no_number_stays_none_of_its_row(number: float) -> None:
    plain = dense()
    values = values_of(plain, (40, INPUTS))
    values["data"][17, 5] = number
    found = forward(rewritten(plain, (40, INPUTS)), values)
    assert not np.isfinite(found[17]).any() and np.isfinite(np.delete(found, 17, axis=0)).all()


def test_weights_are_packed_once() -> None:
    made = joined_layers.for_answers(dense(), {"data": (5, INPUTS)})
    symbol, once = answers.computed_once_apart(made)
    assert operators(symbol) == ["null", "null", PACKED_DENSE]
    assert once is not None and operators(once) == ["null", "null", PACKED_WEIGHTS]


def test_other_layers_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = (2, 3, INPUTS)
    for symbol in (
        dense(outputs=500),
        mx.sym.relu(dense()),
        mx.sym.LeakyReLU(dense(), act_type="gelu"),
        mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=OUTPUTS, name="dense"),  # of two axes at once
        dense(weight=mx.sym.var("weight") * 2),  # which is computed
    ):
        assert PACKED_DENSE not in operators(rewritten(symbol, shape))
    assert PACKED_DENSE not in operators(rewritten(dense(), (2, packed_denses.MOST_INPUTS + 1)))
    assert PACKED_DENSE in operators(rewritten(dense(), shape))
    monkeypatch.setattr(kernels, "onednn", lambda: "AVX512_CORE")
    assert PACKED_DENSE not in operators(rewritten(dense(), shape))
