"""Nets drawn at random compute, rewritten as training rewrites them, what they compute as they are."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mxtrain.core.system import kernels
from tests.support.nets.random_graphs import (
    answers,
    picture_net,
    plain_and_rewritten,
    sequence_net,
    trained,
)
from tests.support.processes import fresh_python

NUM_NETS = 400  # of each process with kernels of its own
TOLERANCE = 2e-3  # of an array's largest number; a ReLU whose input is about 0 may be on either side


def assert_rewrites_agree(choose: Any, make: Any, seed: int = 0) -> None:
    net = make(choose)
    right, ours = (trained(*graphs, net, seed) for graphs in plain_and_rewritten(net))
    assert ours.keys() == right.keys()
    sizes = {name: float(np.abs(value).max(initial=0)) for name, value in right.items()}
    for name, value in right.items():
        largest = max(
            sizes[name], max(sizes.values()) / 50
        )  # a bias before a norm has rounding errors for a gradient
        error = float(np.abs(ours[name] - value).max(initial=0)) / (largest or 1)
        assert error < TOLERANCE, f"{name} is off by {error:.2g} in {net.symbol.tojson()}"


@given(st.data())
def test_pictures(data: Any) -> None:
    assert_rewrites_agree(lambda values: data.draw(st.sampled_from(list(values))), picture_net)


@given(st.data())
def test_series(data: Any) -> None:
    assert_rewrites_agree(lambda values: data.draw(st.sampled_from(list(values))), sequence_net)


def try_many(first_seed: int) -> str:
    """Try nets of many seeds; return what the first one that fails has failed of."""
    for seed in range(first_seed, first_seed + NUM_NETS):
        for make in (picture_net, sequence_net):
            try:
                assert_rewrites_agree(random.Random(seed).choice, make, seed)
            except Exception as error:
                return f"seed {seed}, {make.__name__}: {error}"[:3000]
    return ""


HERE = kernels.ONEDNN_NAMES[: kernels.ONEDNN_NAMES.index(kernels.onednn()) + 1]


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("isa", [each for each in HERE if each != "AVX"])
def test_with_kernels_of_other_processors(isa: str) -> None:
    first = HERE.index(isa) * NUM_NETS
    code = f"import tests.engine.models.rewrites.test_rewrites as tests; answer = tests.try_many({first})"
    found = fresh_python.answer(code, timeout=380, OMP_NUM_THREADS="1", **{kernels.MAX_CPU_ISA: isa})
    assert not found


def assert_joined_layers_answer_alike(net: Any, seed: int) -> None:
    found = answers(net, seed)
    for plain, joined in zip(found[: len(found) // 2], found[len(found) // 2 :]):
        np.testing.assert_allclose(joined, plain, rtol=1e-3, atol=1e-3 * np.abs(plain).max())


@pytest.mark.parametrize("first", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_joined_layers_give_the_answers_of_single_ones(first: int) -> None:
    for seed in range(first * 100, 100 if first == 0 else 2000):
        for make in (picture_net, sequence_net):
            assert_joined_layers_answer_alike(make(random.Random(seed).choice), seed)
