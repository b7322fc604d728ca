"""The state of a pack: the file that each item goes to, the counts, and the bad items.

It can be restored from a checkpoint without reading an item again. Does not own preparing items (`preparation.py`), nor
storing checkpoints (`journal.py`).
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import time
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Container, Iterable, Iterator, List, Sequence, Tuple

import numpy as np

from mxtrain.core import plain_text
from mxtrain.data.packing.journal import Journal, PackCheckpoint
from mxtrain.data.packing.pictures.images import PackedItem
from mxtrain.data.packing.plan import OutputSplit
from mxtrain.data.packing.preparation import PreparedItem
from mxtrain.data.packing.tokens import TaggedItem
from mxtrain.data.records.record_writer import RecordWriter
from mxtrain.data.sources.item import BoxLabel, Item

CHECKPOINT_EVERY_SECONDS = 1.0

Digest = Any  # of hashlib
BadItems = List[Tuple[int, str, str]]  # position among the planned items, name, reason
# Goes through items, of which so many are expected and so many were done before, by their plural, and shows how many.
Progress = Callable[[Iterator[None], int, int, str], Iterator[None]]
Stamp = Tuple[int, ...]
_YES_OR_NO = frozenset((-1, 0, 1))  # of each class, where -1 says unknown


class OutputFile:
    """A .rec that is being written, and its counts."""

    def __init__(self, path: Path, writer: RecordWriter, num_payload_bytes: int = 0):
        self.path, self.writer, self.num_payload_bytes = path, writer, num_payload_bytes
        self.num_records = 0
        self.num_of_class: Counter[int] = Counter()
        self.holds_numbers = False  # to predict, several an item, which are no classes

    def count(self, item: Item) -> None:
        """Count an item that is in the file."""
        self.num_records += 1
        if isinstance(item.label, BoxLabel):
            self.num_of_class.update(item.label.classes)
        elif isinstance(item.label, tuple):
            self.num_of_class.update(number for number, value in enumerate(item.label) if value > 0)
            self.holds_numbers = self.holds_numbers or not _YES_OR_NO.issuperset(item.label)
        elif isinstance(item.label, int):
            self.num_of_class[item.label] += 1

    def write(self, item: Item, packed: PackedItem | TaggedItem) -> None:
        """Append an item to the file, without counting it."""
        label = packed.labels if isinstance(packed, TaggedItem) else item.label
        stored = np.array(label, np.float32) if isinstance(label, tuple) else label
        self.writer.write(len(self.writer), stored, packed.payload)
        self.num_payload_bytes += len(packed.payload)


class PackRun:
    """One run of a pack over all items, in their planned order."""

    def __init__(self, splits: Sequence[OutputSplit], files: Sequence[OutputFile]):
        self.files = files
        self.bad: BadItems = []
        self.notes: Counter[str] = Counter()
        self.num_planned = sum(len(split.items) for split in splits)
        self.num_done = 0
        self._splits = splits
        self._planned = ((number, item) for number, split in enumerate(splits) for item in split.items)
        remaining = iter(files)
        self._files_of_split = [list(itertools.islice(remaining, len(split.paths))) for split in splits]
        self._num_good = [0] * len(splits)
        self._stamps = digest([])

    @property
    def holds_numbers(self) -> bool:
        """Return whether the items that were written have several numbers to predict, and no classes."""
        return any(file.holds_numbers for file in self.files)

    def replay(self, checkpoint: PackCheckpoint, stamps: Digest) -> None:
        """Restore a checkpoint; `stamps` is the digest of the stamps of all items done before it."""
        self.notes.update(checkpoint.notes)
        self.bad = [(position, name, reason) for position, name, reason in checkpoint.bad]
        bad_positions = {position for position, _, _ in self.bad}
        for position, (number, item) in enumerate(itertools.islice(self._planned, checkpoint.num_done)):
            if position not in bad_positions:
                self._file_for(number).count(item)
        self.num_done, self._stamps = checkpoint.num_done, stamps

    def write(self, prepared: Iterator[PreparedItem]) -> Iterator[None]:
        """Write the next items, or list them as bad; yield after each."""
        for result, (number, item) in zip(prepared, self._planned):
            if result.packed is None:
                self.bad.append((self.num_done, plain_text.printable(item.name), result.reason))
            else:
                file = self._file_for(number)
                file.write(item, result.packed)
                file.count(item)
                self.notes.update(result.packed.notes)
            self.num_done += 1
            self._stamps.update(b"%r" % (result.stamp,))
            yield

    def packed(self) -> Iterator[tuple[OutputFile, Item]]:
        """Yield all items that were written, by earlier runs too, with their file, in the order of each file."""
        bad_positions = {position for position, _, _ in self.bad}
        position = 0
        for split, files in zip(self._splits, map(itertools.cycle, self._files_of_split)):
            for item in split.items:
                if position not in bad_positions:
                    yield next(files), item
                position += 1

    def packed_sets(self) -> Iterator[tuple[list[OutputFile], Callable[[], Iterator[Item]]]]:
        """Yield for each data set its files, and a function that goes through all items that were written to them."""
        bad_positions = {position for position, _, _ in self.bad}
        start = 0
        for split, files in zip(self._splits, self._files_of_split):
            yield files, functools.partial(_without, split.items, start, bad_positions)
            start += len(split.items)

    def checkpoint(self) -> PackCheckpoint:
        """Sync everything written to the disk, and return the progress of the run."""
        for file in self.files:
            file.writer.sync()
        files = [(file.writer.written, file.num_payload_bytes) for file in self.files]
        return PackCheckpoint(self.num_done, files, self.bad, self.notes, self._stamps.hexdigest())

    def _file_for(self, number: int) -> OutputFile:
        files = self._files_of_split[number]
        self._num_good[number] += 1
        return files[(self._num_good[number] - 1) % len(files)]


def unseen(items: Iterator[None], num_expected: int, num_before: int, noun: str) -> Iterator[None]:
    """Go through items and show nothing."""
    return items


def write_all(
    run: PackRun, journal: Journal, prepared: Iterator[PreparedItem], noun: str, progress: Progress
) -> None:
    """Write the items that remain, with a checkpoint about once a second."""
    last_checkpoint = time.monotonic()
    for _ in progress(run.write(prepared), run.num_planned, run.num_done, noun):
        if time.monotonic() - last_checkpoint > CHECKPOINT_EVERY_SECONDS:
            journal.add(run.checkpoint())
            last_checkpoint = time.monotonic()


def _without(items: Sequence[Item], start: int, bad_positions: Container[int]) -> Iterator[Item]:
    return (item for position, item in enumerate(items, start) if position not in bad_positions)


def digest(stamps: Iterable[Stamp]) -> Digest:
    """Return a hash of these stamps, which can be updated with further ones."""
    found = hashlib.blake2b(digest_size=16)
    for stamp in stamps:
        found.update(b"%r" % (stamp,))
    return found
