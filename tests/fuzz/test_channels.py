"""Runs of norms and depthwise convolutions in C, of random sizes, with address and undefined-behaviour sanitizers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import sanitized


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = Path(__file__).with_name("channels.c")
    return sanitized.built(
        tmp_path_factory.mktemp("channels"),
        source,
        "operators/channels.c",
        "operators/norm.c",
        "operators/plane.c",
    )


@pytest.mark.parametrize("num_rounds", [30, pytest.param(2000, marks=pytest.mark.slow)])
def test_runs_misuse_no_memory(program: Path, num_rounds: int) -> None:
    assert int(sanitized.output(program, [str(num_rounds)])) == num_rounds
