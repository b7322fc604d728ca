"""Items that a user has not chosen, as negatives of implicit feedback: arithmetic on (seed, epoch, sample).

Owns the index of who has chosen what, and the draw. As with the order of samples there is no state: whoever makes a
sample, in whichever micro-batch, finds the same items, and an epoch finds others than the one before. Nothing is drawn
again until it fits: of the items that a user has not chosen the one with the drawn rank is found at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mxtrain.core.errors import DataError
from mxtrain.data.fields import Array
from mxtrain.data.loading.order import Ints
from mxtrain.tables.hashing import GOLDEN, hashes_of, mixed


class ChosenItems(NamedTuple):
    """An index of which items each user has chosen: 8 bytes for each such pair, each user and each item."""

    items: Ints  # all there are, each once, ascending
    users: Ints  # who have chosen one, ascending
    starts: Ints  # of each user's part of `gaps`, and the end of the last
    # For each pair how many items before it the user has not chosen, and above that the position of the user: so they
    # ascend over all pairs, and one search finds ranks of all users.
    gaps: Ints


def index_of(users: Array, items: Array, catalog: Array | None = None) -> ChosenItems:
    """Return the index of who has chosen what: pairs of int64 ids in any order, as often as they come.

    Args:
        users: the user of each pair.
        items: its item.
        catalog: all items there are, where some have never been chosen; None for those that `items` has.

    Returns:
        The index, the same whatever the order of the pairs.
    """
    all_items = np.unique(items if catalog is None else np.concatenate([items, catalog])).astype(np.int64)
    known, user = np.unique(np.asarray(users, np.int64), return_inverse=True)
    pairs = np.unique(user.reshape(-1) * len(all_items) + np.searchsorted(all_items, items))
    of_user, item = np.divmod(pairs, max(len(all_items), 1))
    starts = np.searchsorted(of_user, np.arange(len(known) + 1))
    gaps = item - (np.arange(len(pairs)) - starts[of_user])
    return ChosenItems(all_items, known, starts, of_user * (len(all_items) + 1) + gaps)


def negatives(chosen: ChosenItems, seed: int, epoch: int, samples: Ints, users: Array, count: int) -> Ints:
    """Return `count` items for each sample that its user has not chosen, each as likely as any other.

    The n-th item of a sample depends on seed, epoch, sample, user and n alone. One may come twice. A user who is not in
    the index has chosen nothing.

    Args:
        chosen: who has chosen what.
        seed: the run's.
        epoch: from 0.
        samples: positions in the data set.
        users: the user of each of them, int64.
        count: how many items.

    Returns:
        Their ids, an array of shape (samples, count).

    Raises:
        DataError: A user has chosen all items.
    """
    num_left = num_unchosen(chosen, users)
    if not num_left.all():
        raise DataError(
            f"user {users[num_left == 0][0]} has chosen all {len(chosen.items)} items, and none is left to be a "
            "negative; leave such users out"
        )
    with np.errstate(over="ignore"):
        of_epoch = mixed(hashes_of([seed]) + np.uint64(epoch) * GOLDEN)
        of_samples = mixed(of_epoch + hashes_of(samples))
        numbers = mixed(of_samples[:, None] + np.arange(1, count + 1, dtype=np.uint64) * GOLDEN)
    return unchosen(chosen, users, (numbers % num_left[:, None].astype(np.uint64)).astype(np.int64))


def num_unchosen(chosen: ChosenItems, users: Array) -> Ints:
    """Return how many items each of these users has not chosen."""
    user, is_known = _positions(chosen, users)
    ends = np.append(chosen.starts[1:], chosen.starts[-1])
    num_left: Ints = len(chosen.items) - np.where(is_known, ends[user] - chosen.starts[user], 0)
    return num_left


def unchosen(chosen: ChosenItems, users: Array, ranks: Ints) -> Ints:
    """Return the items of these ranks, a row for each user, among those that the user has not chosen, from 0."""
    user, is_known = (each[:, None] for each in _positions(chosen, users))
    num_before = np.searchsorted(chosen.gaps, user * (len(chosen.items) + 1) + ranks, side="right")
    num_before -= chosen.starts[user]  # of the items that the user has chosen
    found: Ints = chosen.items[ranks + np.where(is_known, num_before, 0)]
    return found


def _positions(chosen: ChosenItems, users: Array) -> tuple[Ints, Array]:
    """Return the position of each user in the index, and whether it is there; of one that is not any will do."""
    position = np.searchsorted(chosen.users, users)
    known = np.append(chosen.users, 0)[position] == users
    return position, known & (position < len(chosen.users))
