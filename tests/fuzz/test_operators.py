"""Operators in C of random sizes, with address and undefined-behaviour sanitizers, compared with loops in float64."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import sanitized

# The programs beside this file, by their names: what they need besides the operator of that name, and how many rounds
# they try, here and with the slow tests.
PROGRAMS = {
    "attention": (["product"], 30, 2000),
    "block": (
        ["convolution_weights", "depthwise", "direct", "gate", "places", "product", "winograd"],
        60,
        2000,
    ),
    "channels": (["norm", "plane"], 30, 2000),
    "convolution": (["convolution_weights", "direct", "places", "product", "winograd"], 30, 600),
    "dense": (["product"], 30, 1000),
    "layer_norm": ([], 100, 3000),
    "lstm": (["product"], 30, 2000),
    "packed_dense": (["product"], 30, 1000),
    "reduction": ([], 200, 5000),
    "scores": ([], 200, 5000),
    "update": (["squares"], 200, 5000),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("operators")


@pytest.fixture(scope="module", params=PROGRAMS)
def program(request: pytest.FixtureRequest, folder: Path) -> Path:
    name = request.param
    sources = [f"operators/*/{each}.c" for each in (name, *PROGRAMS[name][0])]
    return sanitized.built(folder, Path(__file__).with_name(f"{name}.c"), *sources)


@pytest.mark.parametrize("is_long", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_an_operator_misuses_no_memory(program: Path, is_long: bool) -> None:
    num_rounds = PROGRAMS[program.stem][1 + is_long]
    assert int(sanitized.output(program, [str(num_rounds)])) == num_rounds
