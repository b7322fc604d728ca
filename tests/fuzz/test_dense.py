"""Dense layers in C of random sizes, with the address and undefined-behaviour sanitizers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import sanitized


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = Path(__file__).with_name("dense.c")
    return sanitized.built(
        tmp_path_factory.mktemp("dense"), source, "operators/dense.c", "operators/product.c"
    )


@pytest.mark.parametrize("num_rounds", [30, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_dense_layer_misuses_no_memory(program: Path, num_rounds: int) -> None:
    assert int(sanitized.output(program, [str(num_rounds)])) == num_rounds
