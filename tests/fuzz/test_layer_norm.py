"""LayerNorms in C of random sizes, with the address and undefined-behaviour sanitizers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import sanitized


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = Path(__file__).with_name("layer_norm.c")
    return sanitized.built(tmp_path_factory.mktemp("layer_norm"), source, "operators/layer_norm.c")


@pytest.mark.parametrize("num_rounds", [100, pytest.param(3000, marks=pytest.mark.slow)])
def test_a_layer_norm_misuses_no_memory(program: Path, num_rounds: int) -> None:
    assert int(sanitized.output(program, [str(num_rounds)])) == num_rounds
