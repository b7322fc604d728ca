"""The rows of some tables that one process owns, and the sums of a step's gradients for them.

Owns the arithmetic of a step, whoever calls: a process for itself (`local.py`), or a server for its workers, from
several threads (`requests.py`). What rows are and how they move is `mxtrain/tables/`'s.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mxtrain.data.fields import Array
from mxtrain.kvstore.tables.owner import RowGradients
from mxtrain.optim.update import Update
from mxtrain.tables.arena import Arena
from mxtrain.tables.options import TableOptions
from mxtrain.tables.row_files import ShareFiles
from mxtrain.tables.sums import sum_by_id, sum_of_squares

NO_IDS: Array = np.zeros(0, np.int64)
NO_STEP = -1
EXPIRY_PARTS = 8  # times that rows are looked through in the steps after which they expire


class RowSums(NamedTuple):
    """The sums of a step's gradients for the rows of a table."""

    ids: Array  # each once
    gradients: Array
    squares: int | None  # of all their numbers, as `core/exact_sum.py` has it; None where one is not finite


class TableShare:
    """This process's rows of one table: those of share `share` of `num_shares`; with a `folder` in files of it."""

    def __init__(
        self, options: TableOptions, share: int = 0, num_shares: int = 1, folder: Path | None = None
    ):
        self.arena = Arena(options, folder)
        self.files = ShareFiles(self.arena, share, num_shares)
        self._moving_step = NO_STEP  # the last one, if it has moved rows
        self._has_expired = False  # some rows, in the last update
        self._uses: list[RowGradients] = []
        self._sums: RowSums | None = None
        self._changing = threading.Lock()

    def rows(self, ids: Array) -> Array:
        """Return rows as the last update has left them."""
        rows: Array = np.empty((len(ids), self.arena.options.width), np.float32)
        self.arena.read(ids, rows)
        return rows

    def moved(self, ids: Array) -> Array:
        """Return the positions of those ids whose rows the last step may have moved."""
        if self._has_expired:
            return np.arange(len(ids))
        slots = self.arena.records.index.find(ids)
        return np.flatnonzero((slots >= 0) & (self.arena.records.last[slots] == self._moving_step))

    def add(self, gradients: RowGradients) -> None:
        """Take the gradients of a use into the step's sums."""
        with self._changing:
            self._uses.append(gradients)

    def finish(self) -> RowSums:
        """Return the sums of all that was added in this step: of each row in the order of uses, whoever came first."""
        with self._changing:
            if self._sums is None:
                self._sums = _summed(self._uses, self.arena.options.width)
                self._uses = []
            return self._sums

    def apply(self, update: Update) -> None:
        """Move the rows by the sums of the step."""
        sums = self.finish()
        gradients = sums.gradients
        if update.unscale != 1.0:
            gradients = gradients * np.float32(update.unscale)
        if update.clip:
            gradients = np.clip(gradients, np.float32(-update.clip), np.float32(update.clip))
        step = self.arena.records.step + 1
        self.arena.update(sums.ids, gradients, step, update.rate, update.factor)
        is_time = step % max(1, self.arena.options.expire_after // EXPIRY_PARTS) == 0
        self._has_expired = is_time and self.arena.expire(step) > 0
        self._moving_step, self._sums = step, None

    def drop(self) -> None:
        """Forget the sums of the step."""
        self._moving_step, self._uses, self._sums, self._has_expired = NO_STEP, [], None, False


def _summed(uses: list[RowGradients], width: int) -> RowSums:
    if not uses:
        return RowSums(NO_IDS, np.zeros((0, width), np.float32), 0)
    ordered = sorted(uses, key=lambda each: each[:2])
    ids, gradients = ordered[0].ids, ordered[0].gradients
    if len(ordered) > 1 or not ordered[0].are_distinct:
        ids, gradients = sum_by_id([each.ids for each in ordered], [each.gradients for each in ordered])
    return RowSums(ids, gradients, sum_of_squares(gradients))
