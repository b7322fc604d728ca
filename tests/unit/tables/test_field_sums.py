"""What samples have of their fields' rows: beside plain sums in float64, and C beside NumPy, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxtrain import native
from mxtrain.tables import sums as row_sums
from tests.support.tables import go_way

SHAPES = [(1, 1, 0, 1), (5, 3, 1, 4), (3, 1, 2, 17), (64, 26, 1, 16), (2, 40, 3, 7), (1, 3, 1, 300)]


def arrays(samples: int, fields: int, weights: int, width: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(samples + width)
    rows = rng.standard_normal((max(1, samples * fields // 2), weights + width)).astype(np.float32)
    positions = rng.integers(0, len(rows), samples * fields)
    shapes = (samples, fields, width), (samples, weights + width), (samples, 1)
    return rows, positions, shapes, [rng.standard_normal(each).astype(np.float32) for each in shapes]


def both_ways(shape: tuple[int, int, int, int]) -> tuple[list[Any], Any]:
    rows, positions, shapes, gradients = arrays(*shape)
    parts = [np.full(each, np.nan, np.float32) for each in shapes]
    row_sums.take_fields(rows, positions, *parts)
    return parts, row_sums.field_gradients(positions, len(rows), shape[2], parts[0], *gradients)


@pytest.mark.parametrize("way", ["C", "NumPy"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_parts_and_gradients_are_those_of_plain_sums(
    way: str, shape: tuple[int, int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    go_way(way, monkeypatch)
    (vectors, sums, squares), found = both_ways(shape)
    rows, positions, _, (of_vectors, of_sums, of_squares) = arrays(*shape)
    wide = rows[positions].astype(np.float64).reshape(*shape[:2], -1)
    assert np.array_equal(vectors, wide[:, :, shape[2] :])
    np.testing.assert_allclose(sums, wide.sum(axis=1), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(squares[:, 0], (wide[:, :, shape[2] :] ** 2).sum(axis=(1, 2)), rtol=1e-5)
    of_rows = np.repeat(of_sums[:, None].astype(np.float64), shape[1], axis=1)
    of_rows[:, :, shape[2] :] += of_vectors + 2.0 * of_squares[:, :, None] * vectors
    expected = np.zeros(rows.shape)
    np.add.at(expected, positions, of_rows.reshape(len(positions), -1))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(native.take_fields is None, reason="the part in C is not built")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_c_and_numpy_have_the_same_bits(
    shape: tuple[int, int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for way in ("C", "NumPy"):
        go_way(way, monkeypatch)
        parts, gradients = both_ways(shape)
        found.append([each.tobytes() for each in (*parts, gradients)])
    assert found[0] == found[1]


@pytest.mark.skipif(native.take_fields is None, reason="the part in C is not built")
def test_arrays_that_do_not_fit_are_refused() -> None:
    rows, positions, shapes, _ = arrays(4, 3, 1, 5)
    parts = [np.zeros(each, np.float32) for each in shapes]
    for wrong in (
        (rows, np.full_like(positions, len(rows)), *parts),
        (rows, positions - len(rows), *parts),
        (rows, positions[:-1], *parts),
        (rows.reshape(-1)[:-1].copy(), positions, *parts),
        (rows, positions, parts[0].reshape(-1)[:-1].copy(), *parts[1:]),
        (rows, positions, parts[0], parts[1][:-1].copy(), parts[2]),
        (rows, positions, *parts[:2], parts[2].astype(np.float64)),
    ):
        with pytest.raises(ValueError, match="do not fit"):
            native.take_fields(*wrong)
        with pytest.raises(ValueError, match="do not fit"):
            native.add_fields(*wrong[:3], *wrong[2:])
    with pytest.raises(ValueError, match="do not fit"):
        native.add_fields(rows, positions, parts[0], parts[0].reshape(-1)[:-1].copy(), *parts[1:])
