"""Sums over the workers of one host, in memory that they share and that has no name.

A worker writes its numbers to its row, and each adds one part of all rows. Their connections carry signals of one byte
alone, which are read without spinning. What is handled at once is small enough for the cores' common cache.
"""

from __future__ import annotations

from typing import Callable, Sequence

import numpy as np

from mxtrain.data.fields import Array
from mxtrain.kvstore import shared_arrays
from mxtrain.kvstore.allreduce.partition import PIECE, SMALL, chunks, owned
from mxtrain.kvstore.allreduce.peers import Peers
from mxtrain.kvstore.shared_arrays import CHUNK, Shared

# A worker that has begun with a piece has been signalled by all that they have done with the one before it.
NUM_SLOTS = 2


class HostSums:
    """Sums over the workers `members` of a host, two or more; the first one leads.

    With `across` the leader's sums are summed by it over hosts, in place, before all have them.
    """

    def __init__(self, peers: Peers, members: Sequence[int], across: Callable[[Array], None] | None = None):
        self._peers, self._across = peers, across
        self._leader, self._index = members[0], members.index(peers.rank)
        self._others = [member for member in members if member != peers.rank]
        self._slots = np.split(self.new_rows(NUM_SLOTS * PIECE), NUM_SLOTS, axis=1)
        self._slot = 0

    @property
    def is_all(self) -> bool:
        """Return whether there are no workers elsewhere."""
        return self._across is None

    def new_rows(self, count: int) -> Array:
        """Return zeros in memory that the workers share, a row of so many numbers for each; all call it."""
        num_rows = len(self._others) + 1
        if self._leader == self._peers.rank:
            descriptor = shared_arrays.open_file(num_rows * count)
            self._peers.send_file(self._others, descriptor)
        else:
            descriptor = self._peers.receive_file(self._leader)
        return shared_arrays.map_file(descriptor, num_rows * count).reshape(num_rows, count)

    def own_row(self, rows: Array) -> Array:
        """Return this worker's of the `new_rows`."""
        own: Array = rows[self._index]
        return own

    def add_shared(self, arrays: Sequence[Shared]) -> None:
        """Replace each of the workers' arrays by their sum, which lie in their `new_rows`.

        All call this with the same ones, once theirs is there.
        """
        self._meet()
        rows = [each.numbers for each in arrays]
        if self._across is None:
            others = [each for number, each in enumerate(arrays) if number != self._index]
            own = owned(len(rows[0]), self._index, len(rows))
            shared_arrays.add_shared([arrays[self._index], *others], own)
        else:
            self._sum_over_hosts(rows)
            if self._index:
                rows[self._index][:] = rows[0]
        self._meet()

    def add(self, numbers: Array) -> None:
        """Replace flat float32 numbers by the sums over all workers, which call this with as many."""
        for piece in chunks(numbers, PIECE):
            rows = self._slots[self._slot][:, : len(piece)]
            self._slot = (self._slot + 1) % NUM_SLOTS
            if self._across is not None:
                self._add_across(piece, rows)
            elif len(piece) <= SMALL:
                self._add_small(piece, rows)
            else:
                self._add_owned(piece, rows)

    def _add_small(self, piece: Array, rows: Array) -> None:
        rows[self._index] = piece
        self._meet()
        np.add.reduce(rows, axis=0, out=piece)

    def _add_owned(self, piece: Array, rows: Array) -> None:
        """Add what is owned, where it is; the own row has room for its sums, which no other worker adds."""
        row, own = rows[self._index], owned(len(piece), self._index, len(rows))
        row[: own.start] = piece[: own.start]
        row[own.stop :] = piece[own.stop :]
        self._meet()
        others = [each[own] for number, each in enumerate(rows) if number != self._index]
        for total, sums, *terms in zip(*(chunks(each, CHUNK) for each in (piece[own], row[own], *others))):
            for term in terms:
                np.add(total, term, out=total)
            sums[:] = total
        self._meet()
        for number, each in enumerate(rows):
            if number != self._index:
                there = owned(len(piece), number, len(rows))
                piece[there] = each[there]

    def _add_across(self, piece: Array, rows: Array) -> None:
        """Add to the leader's row, which it then sums over hosts."""
        rows[self._index] = piece
        self._meet()
        self._sum_over_hosts(rows)
        piece[:] = rows[0]

    def _sum_over_hosts(self, rows: Array | Sequence[Array]) -> None:
        """Have the leader's row replaced by the sum of all hosts' rows."""
        assert self._across is not None
        own = owned(len(rows[0]), self._index, len(rows))
        total, *terms = (row[own] for row in rows)
        for term in terms:
            np.add(total, term, out=total)
        if self._index == 0:
            self._peers.receive_signal(self._others)
            self._across(rows[0])
            self._peers.send_signal(self._others)
        else:
            self._peers.send_signal([self._leader])
            self._peers.receive_signal([self._leader])

    def _meet(self) -> None:
        self._peers.send_signal(self._others)
        self._peers.receive_signal(self._others)
