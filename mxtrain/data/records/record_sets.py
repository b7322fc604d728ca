"""Record sets: several .rec files as one, `a.rec,b.rec`, or a pattern such as `train-*.rec` for all shards.

Owns which files belong to a set, and their order: positions count through the files as they are named, those of a
pattern in sorted order. Reading one file is `record_file.py`'s.
"""

from __future__ import annotations

import concurrent.futures
import glob
import re
from pathlib import Path, PurePath
from typing import Sequence

import numpy as np

from mxtrain.config.values import addresses
from mxtrain.config.values.addresses import Address
from mxtrain.core.errors import DataError
from mxtrain.data.interfaces import Record
from mxtrain.data.records.record_file import RecordFile, Versions, open_records, remote_files
from mxtrain.data.records.recordio import Floats, Ints
from mxtrain.data.storage import stores
from mxtrain.data.storage.options import DEFAULTS, StorageOptions
from mxtrain.data.storage.remote_bytes import RemoteBytes

OPENED_AT_ONCE = 16  # files in a store
SHARD = re.compile(r"(.*)-(\d+)-of-(\d+)\.rec")


def open_set(text: str, storage: StorageOptions = DEFAULTS) -> RecordFile | RecordSet:
    """Open what `--train` or `--val` names; DataError when files are missing or do not belong together."""
    named = [_files(part.strip(), storage) for part in text.split(",")]
    paths = [path for found, _ in named for path in found]
    repeated = {path for path in paths if paths.count(path) > 1}
    if repeated:
        raise DataError(f"{text}: names {min(repeated)} twice; name each file once")
    _refuse_missing_shards(text, paths)
    versions = {address: version for _, known in named for address, version in known.items()}
    remote = [path for path in paths if isinstance(path, Address)]
    unknown = [file for path in remote if path not in versions for file in remote_files(path)]
    versions.update(stores.versions(unknown, storage.patience))
    if remote:  # each takes some requests, one after the other
        with concurrent.futures.ThreadPoolExecutor(OPENED_AT_ONCE) as pool:
            parts = list(pool.map(lambda path: open_records(path, storage, versions), paths))
    else:
        parts = [open_records(path) for path in paths]
    return parts[0] if len(parts) == 1 else RecordSet(text, parts)


class RecordSet:
    """`Records` of several files, one after the other. `name` is that of the set in messages."""

    def __init__(self, name: str, parts: list[RecordFile]):
        for part in parts[1:]:
            _refuse_other_classes(parts[0], part)
        self.path: PurePath = Address(name) if addresses.is_address(name) else Path(name)
        self.files = [file for part in parts for file in part.files]
        self.class_names = parts[0].class_names
        self.keys: Ints = np.concatenate([part.keys for part in parts])
        self.descriptors: tuple[int, ...] = ()
        self.has_checksums = any(part.has_checksums for part in parts)
        self._parts = parts
        self._starts = np.cumsum([0, *map(len, parts)])

    def __len__(self) -> int:
        return len(self.keys)

    def read(self, position: int, verify: bool = True) -> Record:
        part, inside = self._find(position)
        return part.read(inside, verify)

    def where(self, position: int) -> str:
        part, inside = self._find(position)
        return part.where(inside)

    def will_need(self, positions: Ints) -> None:
        numbers = np.searchsorted(self._starts, positions, side="right") - 1
        for number in np.unique(numbers).tolist():
            self._parts[number].will_need(positions[numbers == number] - self._starts[number])

    @property
    def remotes(self) -> list[RemoteBytes]:
        """Those of its files that are in a store."""
        return [file for part in self._parts for file in part.remotes]

    @property
    def lookahead(self) -> int:
        """The number of samples to announce to `will_need` before they are used."""
        return max(part.lookahead for part in self._parts)

    def chunks(self, num_bytes: int) -> Ints:
        """Return the number of the chunk that each record is in; those of a file follow the last one's."""
        numbers, first = [], 0
        for part in self._parts:
            numbers.append(part.chunks(num_bytes) + first)
            first = int(numbers[-1].max(initial=first - 1)) + 1
        return np.concatenate(numbers)

    def frames(self, positions: Ints) -> list[bytes]:
        """Return the bytes of these records as they lie in their files, unchecked."""
        numbers = np.searchsorted(self._starts, positions, side="right") - 1
        found: list[bytes] = [b""] * len(positions)
        for number in np.unique(numbers).tolist():
            chosen = np.flatnonzero(numbers == number)
            of_part = self._parts[number].frames(positions[chosen] - self._starts[number])
            for place, frame in zip(chosen.tolist(), of_part):
                found[place] = frame
        return found

    @property
    def lengths(self) -> Ints:
        lengths: Ints = np.concatenate([part.lengths for part in self._parts])
        return lengths

    def payload_sizes(self) -> Ints:
        """Return the number of bytes in each record's payload; from the headers alone, so unchecked."""
        sizes: Ints = np.concatenate([part.payload_sizes() for part in self._parts])
        return sizes

    def checksum(self, position: int) -> int:
        part, inside = self._find(position)
        return part.checksum(inside)

    def labels(self) -> Floats:
        """Return all labels, (n,), or (n, k) with k labels a record; from the headers alone, so unchecked."""
        labels = [part.labels() for part in self._parts]
        odd = next((k for k, of_part in enumerate(labels) if of_part.shape[1:] != labels[0].shape[1:]), None)
        if odd is not None:
            first, other = self._parts[0].path, self._parts[odd].path
            raise DataError(f"{other}: has other numbers of labels a record than {first}; pack them together")
        return np.concatenate(labels)

    def flat_labels(self) -> Floats:
        """Return the labels of all records one after the other, however many each has."""
        return np.concatenate([part.flat_labels() for part in self._parts])

    def label_rows(self) -> list[Floats]:
        """Return the labels of each record, however many it has."""
        return [row for part in self._parts for row in part.label_rows()]

    def _find(self, position: int) -> tuple[RecordFile, int]:
        number = int(np.searchsorted(self._starts, position, side="right")) - 1
        return self._parts[number], position - int(self._starts[number])


def _files(part: str, storage: StorageOptions) -> tuple[list[Path | Address], Versions]:
    """Return the files of a name or a pattern, and versions of files in stores that are known by now.

    A name of a file that exists is no pattern, whatever is in it.
    """
    if addresses.is_address(part):
        return _addresses(addresses.parse("", part), storage)
    part = addresses.local(part)
    if Path(part).exists() or not glob.has_magic(part):
        return [Path(part)], {}
    found = sorted(Path(path) for path in glob.glob(part) if path.endswith(".rec"))
    if not found:
        raise DataError(f"{part}: no .rec file matches the pattern")
    return list(found), {}


def _addresses(address: Address, storage: StorageOptions) -> tuple[list[Path | Address], Versions]:
    if not glob.has_magic(str(address)):
        return [address], {}
    matching, versions = stores.matching(address, storage.patience)
    found = [each for each in matching if each.suffix == ".rec"]
    if not found:
        raise DataError(f"{address}: no .rec file matches the pattern")
    return list(found), versions


def _refuse_missing_shards(text: str, paths: Sequence[PurePath]) -> None:
    """Raise DataError where files such as `train-00000-of-00004.rec` say that there are more of them."""
    present: dict[tuple[str, str], set[int]] = {}
    for path in paths:
        match = SHARD.fullmatch(str(path))
        if match:
            present.setdefault((match[1], match[3]), set()).add(int(match[2]))
    for (name, count), numbers in present.items():
        missing = sorted(set(range(int(count))) - numbers)
        if missing:
            raise DataError(
                f"{text}: shard {missing[0]} of {name}-*-of-{count}.rec is missing ({len(numbers)} of {int(count)} "
                "are there); name all shards, or rename those that are meant to stand alone"
            )


def _refuse_other_classes(first: RecordFile, other: RecordFile) -> None:
    if first.class_names != other.class_names:
        raise DataError(
            f"{other.path}: its classes are not those of {first.path}, so labels mean other things; "
            "pack them together (--shards makes several files)"
        )
