"""Negatives are items that their user has not chosen, the same whoever draws them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxtrain.core.errors import DataError
from mxtrain.data.loading.negatives import ChosenItems, index_of, negatives, num_unchosen, unchosen

STRANGER = 12345


def pairs(seed: int, num_users: int = 40, num_items: int = 30, count: int = 500) -> tuple[Any, Any]:
    """Users and items by ids at both ends of int64, with pairs that come several times."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(-(1 << 63), (1 << 63) - 1, num_users + num_items)
    ids[:2] = -(1 << 63), (1 << 63) - 1
    return rng.choice(ids[:num_users], count), rng.choice(ids[num_users:], count)


def left_of(users: Any, items: Any, user: int) -> list[int]:
    return sorted(set(items.tolist()) - set(items[users == user].tolist()))


@pytest.mark.parametrize("seed", range(5))
def test_ranks_are_those_among_what_a_user_has_not_chosen(seed: int) -> None:
    users, items = pairs(seed)
    chosen = index_of(users, items)
    everybody = np.append(np.unique(users), STRANGER)
    expected = [left_of(users, items, user) for user in everybody.tolist()]
    assert num_unchosen(chosen, everybody).tolist() == list(map(len, expected))
    for user, left in zip(everybody.tolist(), expected):
        found = unchosen(chosen, np.array([user]), np.arange(len(left))[None])
        assert found.tolist() == [left]


def test_neither_order_nor_repetition_of_pairs_matters() -> None:
    users, items = pairs(0)
    order = np.random.default_rng(1).permutation(len(users))
    again = index_of(np.append(users[order], users), np.append(items[order], items))
    for one, other in zip(index_of(users, items), again):
        assert np.array_equal(one, other)


def drawn(
    chosen: ChosenItems, samples: Any, users: Any, epoch: int = 3, seed: int = 7, count: int = 6
) -> Any:
    return negatives(chosen, seed, epoch, samples, users, count)


def test_a_sample_has_the_same_negatives_whoever_draws_them() -> None:
    users, items = pairs(2)
    chosen, samples = index_of(users, items), np.arange(len(users))
    whole = drawn(chosen, samples, users)
    assert whole.shape == (500, 6) and whole.dtype == np.int64
    for user, row in zip(users.tolist(), whole.tolist()):
        assert set(row) <= set(left_of(users, items, user))
    some = np.random.default_rng(0).permutation(500)[:50]
    assert np.array_equal(drawn(chosen, some, users[some]), whole[some])
    assert np.array_equal(drawn(chosen, some, users[some], count=2), whole[some, :2])
    for other in ({"epoch": 4}, {"seed": 8}):
        assert (drawn(chosen, samples, users, **other) == whole).mean() < 0.1
    assert (whole[1:] == whole[:-1]).mean() < 0.1 and (whole[:, 1:] == whole[:, :-1]).mean() < 0.1


def test_each_is_as_likely_as_any_other() -> None:
    users, items = np.array([5, 5, 9]), np.array([1, 3, 0])
    chosen = index_of(users, items, catalog=np.arange(10))
    for user, left in ((5, 8), (9, 9), (STRANGER, 10)):
        found = drawn(chosen, np.arange(20_000), np.full(20_000, user), count=2)
        counts = np.bincount(found.ravel(), minlength=10)
        assert (counts > 0).sum() == left
        assert counts[counts > 0] == pytest.approx(40_000 / left, rel=0.08)
        together = np.unique(found[:, 0] * 10 + found[:, 1], return_counts=True)[1]
        assert len(together) == left**2 and together.min() > 0.7 * 20_000 / left**2


def test_a_user_who_has_chosen_everything_is_named() -> None:
    chosen = index_of(np.array([1, 1, 2]), np.array([10, 20, 10]))
    assert drawn(chosen, np.array([0]), np.array([2]), count=3).tolist() == [[20, 20, 20]]
    with pytest.raises(DataError, match="user 1 has chosen all 2 items"):
        drawn(chosen, np.arange(2), np.array([2, 1]))


def test_nobody_has_chosen_anything() -> None:
    nothing = np.zeros(0, np.int64)
    chosen = index_of(nothing, nothing, catalog=np.array([4, 4, 6]))
    assert set(drawn(chosen, np.arange(99), np.arange(99)).ravel().tolist()) == {4, 6}
    with pytest.raises(DataError, match="all 0 items"):
        drawn(index_of(nothing, nothing), np.array([0]), np.array([1]))
