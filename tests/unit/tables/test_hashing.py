"""Ids of texts, and the shares of ids, are what they always were."""

from __future__ import annotations

import numpy as np
import pytest

from mxtrain.tables import hashing, placement
from tests.support.tables import WAYS, go_way

TEXTS = ["", "a", "b", "a\0", "abcdefgh", "abcdefghi", "größer", "用户", "x" * 1000]


@pytest.fixture(params=WAYS, autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    go_way(request.param, monkeypatch)


def plain_id(text: str) -> int:
    """The id as docs/tables.md says it, in Python's whole numbers."""

    def mixed(number: int) -> int:
        number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        number = (number ^ number >> 27) * 0x94D049BB133111EB % 2**64
        return number ^ number >> 31

    encoded = text.encode()
    state = mixed((len(encoded) + 0x9E3779B97F4A7C15) % 2**64)
    for start in range(0, len(encoded), 8):
        state = mixed(state ^ int.from_bytes(encoded[start : start + 8], "little"))
    return state - (state >> 63 << 64)


def test_texts_have_the_ids_of_the_docs() -> None:
    assert hashing.ids_of(TEXTS).tolist() == [plain_id(text) for text in TEXTS]
    assert hashing.ids_of([]).tolist() == []
    assert hashing.ids_of(["user"]).tolist() == [plain_id("user")]


def test_parts_of_a_line_need_no_copy() -> None:
    line = b"12\t\tred\n"
    found = hashing.ids_of_parts(line, np.array([0, 3, 4]), np.array([2, 3, 7]))
    assert found.tolist() == [plain_id(text) for text in ("12", "", "red")]


@pytest.mark.parametrize("start, end", [(-1, 1), (0, 9), (5, 4), (9, 9)])
def test_parts_outside_are_refused(start: int, end: int) -> None:
    with pytest.raises(ValueError):
        hashing.ids_of_parts(b"12\t\tred\n", np.array([start]), np.array([end]))


def test_many_texts_have_many_ids() -> None:
    texts = [f"{prefix}{number}" for prefix in ("", "u", "item:") for number in range(20_000)]
    ids = hashing.ids_of(texts)
    assert len(np.unique(ids)) == len(texts)
    assert abs(np.unpackbits(ids.view(np.uint8)).mean() - 0.5) < 0.01


@pytest.mark.parametrize("num_shares", [1, 2, 3, 7])
def test_shares_are_alike_in_size_and_make_up_the_whole(num_shares: int) -> None:
    ids = np.arange(-30_000, 30_000)
    positions = placement.split(ids, num_shares)
    assert np.array_equal(np.sort(np.concatenate(positions)), np.arange(len(ids)))
    for share, of_share in enumerate(positions):
        assert (placement.share_of(ids[of_share], num_shares) == share).all()
        assert abs(len(of_share) / len(ids) * num_shares - 1) < 0.03


def test_places_of_ids_never_move() -> None:
    """Checkpoints and packed ids lie where they said."""
    assert placement.share_of(np.array([0, 1, -1, 1 << 40]), 5).tolist() == [0, 3, 0, 3]
    assert hashing.hashes_of(np.array([1])).tolist() == [0x5692161D100B05E5]
