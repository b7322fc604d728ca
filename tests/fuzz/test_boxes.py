"""The part in C on damaged JPEGs, with the address and undefined-behaviour sanitizers."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from tests.support import sanitized
from tests.support.data.encoded_jpegs import SAMPLINGS, assembled, encoded, picture

# All that reads and writes JPEGs.
SOURCES = (
    *("coefficients.c", "colour.c", "crop.c", "huffman.c", "idct.c", "optimal.c", "parse.c", "planes.c"),
    *("progressive.c", "resize.c", "rewrite.c", "tokens.c"),
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sanitized.built(tmp_path_factory.mktemp("boxes"), Path(__file__).with_name("boxes.c"), *SOURCES)


@pytest.mark.parametrize("num_rounds", [8, pytest.param(300, marks=pytest.mark.slow)])
def test_damaged_jpegs_misuse_no_memory(program: Path, tmp_path: Path, num_rounds: int) -> None:
    rng = np.random.default_rng(0)
    files = []
    for sampling in SAMPLINGS:
        for interval in (0, 1, 5):
            for height, width in ((33, 47), (17, 5), (90, 120)):
                files.append(tmp_path / f"{sampling}-{interval}-{height}.jpg")
                files[-1].write_bytes(encoded(picture(rng, height, width, 40), 80, sampling, interval))
    for height, width in ((1, 1), (50, 71)):
        for sampling in SAMPLINGS:
            files.append(tmp_path / f"progressive-{sampling}-{height}.jpg")
            files[-1].write_bytes(encoded(picture(rng, height, width, 40), 80, sampling, progressive=True))
    done = run(program, num_rounds, files)
    assert done.tried == num_rounds * len(files) and done.decoded > done.tried // 10
    assert done.rewritten > done.tried // 30
    # What fills up the last byte of a stretch says nothing.
    assert 0.95 * done.changed < done.noticed <= done.changed


def test_reading_on_behind_the_end_stays_in_memory(program: Path, tmp_path: Path) -> None:
    """Zeros, also those behind the end, are the longest code there is, and it takes the most bits with it."""
    longest = tmp_path / "longest.jpg"
    longest.write_bytes(assembled("0" * 16, {16: b"\x0f"}, {16: b"\x0f"}))
    done = run(program, 1, [longest])
    assert (done.tried, done.decoded, done.rewritten) == (1, 0, 0)


class Outcome(NamedTuple):
    tried: int  # damaged files
    decoded: int
    rewritten: int
    changed: int  # rewritten, and then damaged again
    noticed: int  # of these


def run(program: Path, num_rounds: int, files: list[Path]) -> Outcome:
    """Return what became of the damaged files."""
    return Outcome(*map(int, sanitized.output(program, [str(num_rounds), *map(str, files)]).split()))
