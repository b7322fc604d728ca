"""The shuffled order of items and their split, as arithmetic on seed and name, without state or generator.

Items are sorted by a hash of the seed and their name: shuffled, because readers that only stream (such as
ImageRecordIter) would otherwise see one class after the other, and the same on every machine for any number of
workers. The split goes by the same hash, so when items are added, all but a few at the border stay on their side.
"""

from __future__ import annotations

import hashlib
import os
from array import array
from collections import defaultdict
from typing import Iterable, Sequence

import numpy as np

from mxtrain.data.records.recordio import Ints
from mxtrain.data.sources.item import Item, MadeItems


def shuffled(items: Sequence[Item], seed: int) -> Sequence[Item]:
    """Return the items in the order that the seed gives them."""
    return _at(items, _order(items, seed))


def split(
    items: Sequence[Item], train_share: float, seed: int, keeps_order: bool = False
) -> tuple[Sequence[Item], Sequence[Item]]:
    """Divide each class by itself, and return both sides shuffled, or in the order of `items`.

    `train_share` of a class goes to the first side. A class of two or more is on both sides, a class of one is in
    train. Items whose label is no class are divided as if they were one class.
    """
    order = _order(items, seed)
    by_class: dict[int | None, array[int]] = defaultdict(lambda: array("q"))
    for position in range(len(items)):
        label = items[int(order[position])].label
        by_class[label if isinstance(label, int) else None].append(position)
    is_train = np.zeros(len(items), bool)
    for members in by_class.values():
        num_train = min(max(round(len(members) * train_share), 1), max(len(members) - 1, 1))
        is_train[np.array(members[:num_train])] = True
    sides = order[is_train], order[~is_train]
    first, second = map(np.sort, sides) if keeps_order else sides
    return _at(items, first), _at(items, second)


def _at(items: Sequence[Item], positions: Ints) -> Sequence[Item]:
    if isinstance(items, list):
        return [items[position] for position in positions.tolist()]
    return MadeItems(len(positions), lambda number: items[int(positions[number])])


def _order(items: Sequence[Item], seed: int) -> Ints:
    """Return the positions of items by the hash of the seed and their names; names decide where two hashes agree."""
    keys = np.fromiter(_keys(items, seed), np.uint64, len(items))
    order: Ints = np.argsort(keys, kind="stable")
    is_tie = np.diff(keys[order]) == 0
    for start in np.flatnonzero(is_tie & ~np.append(False, is_tie[:-1])).tolist():
        end = start + 1
        while end < len(order) and keys[order[end]] == keys[order[start]]:
            end += 1
        order[start:end] = sorted(order[start:end].tolist(), key=lambda each: os.fsencode(items[each].name))
    return order


def _keys(items: Sequence[Item], seed: int) -> Iterable[int]:
    for item in items:
        digest = hashlib.blake2b(b"%d/" % seed + os.fsencode(item.name), digest_size=8).digest()
        yield int.from_bytes(digest, "big")
