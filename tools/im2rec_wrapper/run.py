"""What moves while items are packed, in their planned order: where each goes, what is counted, which were bad.

It can be brought to where an earlier run was without reading anything again. Working items out is `outcomes.py`'s
part, keeping checkpoints `journal.py`'s.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from pathlib import Path
from typing import Any, Iterable, Iterator, Sequence, Tuple

import numpy as np

from mxtrain.core import plain_text
from mxtrain.data.record_writer import RecordWriter
from tools.im2rec_wrapper.journal import Checkpoint
from tools.im2rec_wrapper.outcomes import Outcome
from tools.im2rec_wrapper.plan import Part
from tools.im2rec_wrapper.sources.item import Item

Digest = Any  # of hashlib
Stamp = Tuple[int, ...]


class File:
    """One .rec, and what is counted for it."""

    def __init__(self, path: Path, writer: RecordWriter, num_payload_bytes: int = 0):
        self.path, self.writer, self.num_payload_bytes = path, writer, num_payload_bytes
        self.num_records = 0
        self.num_of_class: Counter[int] = Counter()

    def count(self, item: Item) -> None:
        self.num_records += 1
        if isinstance(item.label, tuple):
            self.num_of_class.update(number for number, given in enumerate(item.label) if given)
        elif isinstance(item.label, int):
            self.num_of_class[item.label] += 1

    def write(self, item: Item, payload: bytes) -> None:
        label = np.array(item.label, np.float32) if isinstance(item.label, tuple) else item.label
        self.writer.write(len(self.writer), label, payload)
        self.num_payload_bytes += len(payload)


class Run:
    def __init__(self, parts: Sequence[Part], files: Sequence[File]):
        self.files = files
        self.bad: list[tuple[int, str, str]] = []  # position among the planned items, name, reason
        self.notes: Counter[str] = Counter()
        self.num_planned = sum(len(part.items) for part in parts)
        self.num_done = 0
        self._parts = parts
        self._planned = ((number, item) for number, part in enumerate(parts) for item in part.items)
        remaining = iter(files)
        self._files_of_part = [list(itertools.islice(remaining, len(part.paths))) for part in parts]
        self._num_good = [0] * len(parts)
        self._stamps = digest([])

    def replay(self, checkpoint: Checkpoint, stamps: Digest) -> None:
        """Come to where the checkpoint was taken, the items done before having these stamps."""
        self.notes.update(checkpoint.notes)
        self.bad = [(position, name, reason) for position, name, reason in checkpoint.bad]
        bad_positions = {position for position, _, _ in self.bad}
        for position, (number, item) in enumerate(itertools.islice(self._planned, checkpoint.num_done)):
            if position not in bad_positions:
                self._file_for(number).count(item)
        self.num_done, self._stamps = checkpoint.num_done, stamps

    def take(self, outcomes: Iterator[Outcome]) -> Iterator[None]:
        """Write what becomes of the further items; yields after each."""
        for outcome, (number, item) in zip(outcomes, self._planned):
            if outcome.packed is None:
                self.bad.append((self.num_done, plain_text.printable(item.name), outcome.reason))
            else:
                file = self._file_for(number)
                file.write(item, outcome.packed.payload)
                file.count(item)
                self.notes.update(outcome.packed.notes)
            self.num_done += 1
            self._stamps.update(b"%r" % (outcome.stamp,))
            yield

    def packed(self) -> Iterator[tuple[File, Item]]:
        """All items that were written, an earlier run's too, in the order of each file."""
        bad_positions = {position for position, _, _ in self.bad}
        position = 0
        for part, files in zip(self._parts, map(itertools.cycle, self._files_of_part)):
            for item in part.items:
                if position not in bad_positions:
                    yield next(files), item
                position += 1

    def checkpoint(self) -> Checkpoint:
        """Where the run is, once everything written is on the disk."""
        for file in self.files:
            file.writer.sync()
        files = [(file.writer.written, file.num_payload_bytes) for file in self.files]
        return Checkpoint(self.num_done, files, self.bad, self.notes, self._stamps.hexdigest())

    def _file_for(self, number: int) -> File:
        files = self._files_of_part[number]
        self._num_good[number] += 1
        return files[(self._num_good[number] - 1) % len(files)]


def digest(stamps: Iterable[Stamp]) -> Digest:
    """A hash of these stamps that takes further ones."""
    found = hashlib.blake2b(digest_size=16)
    for stamp in stamps:
        found.update(b"%r" % (stamp,))
    return found
