"""The shuffled order of items and their split, as arithmetic on seed and name, without state or generator.

Items are sorted by a hash of the seed and their name: shuffled, because readers that only stream (such as
ImageRecordIter) would otherwise see one class after the other, and the same on every machine for any number of
workers. The split goes by the same hash, so when items are added, all but a few at the border stay on their side.
"""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from typing import Sequence

from ..sources.item import Item


def shuffled(items: Sequence[Item], seed: int) -> list[Item]:
    """Return the items in the order that the seed gives them."""
    return sorted(items, key=lambda item: _sort_key(item, seed))


def split(items: Sequence[Item], train_share: float, seed: int) -> tuple[list[Item], list[Item]]:
    """Divide each class by itself, and return both sides shuffled; `train_share` of it goes to the first.

    A class of two or more is on both sides, a class of one is in train. Items whose label is no class are divided as
    if they were one class.
    """
    by_class: dict[int | None, list[Item]] = defaultdict(list)
    for item in shuffled(items, seed):
        by_class[item.label if isinstance(item.label, int) else None].append(item)
    train: list[Item] = []
    val: list[Item] = []
    for members in by_class.values():
        num_train = min(max(round(len(members) * train_share), 1), max(len(members) - 1, 1))
        train += members[:num_train]
        val += members[num_train:]
    return shuffled(train, seed), shuffled(val, seed)


def in_order_of(items: Sequence[Item], chosen: Sequence[Item]) -> list[Item]:
    """Return the chosen items in the order that they have in `items`."""
    kept = set(map(id, chosen))
    return [item for item in items if id(item) in kept]


def _sort_key(item: Item, seed: int) -> bytes:
    # The name decides where two hashes agree.
    name = os.fsencode(item.name)
    return hashlib.blake2b(b"%d/" % seed + name, digest_size=8).digest() + name
