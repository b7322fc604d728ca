"""Which file an item goes to, and in which order: arithmetic on seed and name, no state and no generator.

Each item has a rank, a hash of the seed and its name. The order in a file is by rank: shuffled, because readers
that only stream (ImageRecordIter, say) would otherwise see one class after the other; and the same on every machine
and for any number of workers. The split goes by rank too, so an item keeps its side, all but a few at the border,
when others are added.
"""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from typing import Sequence

from tools.im2rec_wrapper.sources.item import Item


def shuffled(items: Sequence[Item], seed: int) -> list[Item]:
    return sorted(items, key=lambda item: _rank(item, seed))


def split(items: Sequence[Item], train_share: float, seed: int) -> tuple[list[Item], list[Item]]:
    """Each class divided by itself, both parts shuffled. A class of two or more is on both sides, of one in train.

    Items whose label is no class are divided as one.
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


def as_in(items: Sequence[Item], chosen: Sequence[Item]) -> list[Item]:
    """The chosen items in the order that they have in `items`."""
    kept = set(map(id, chosen))
    return [item for item in items if id(item) in kept]


def _rank(item: Item, seed: int) -> bytes:
    # The name decides where two hashes agree.
    name = os.fsencode(item.name)
    return hashlib.blake2b(b"%d/" % seed + name, digest_size=8).digest() + name
