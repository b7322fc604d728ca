"""The interfaces of data sets: what the loader, the loop and an evaluation may ask of one, whatever it is made of.

Owns the types alone. Implementations: a .rec file (`data/records/record_file.py`), several
(`data/records/record_sets.py`), arrays in files (`data/arrays/array_sets.py`), windows of documents
(`data/text/windows.py`), decoded pictures (`data/decode/pixel_cache.py`), the samples of `--overfit`
(`data/loading/sample_requests.py`); and the user's own data sets (`data/user/user_datasets.py`), arrays
(`data/arrays/columns.py` makes a data set of them) and streams (`data/user/streams.py`).
"""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Any, NamedTuple, Protocol

from mxtrain.data.records.recordio import Floats, Ints, Label


class Record(NamedTuple):
    """One sample as it is stored: a picture with its label."""

    key: int
    label: Label
    payload: Any  # encoded bytes; pixels, or `decoding.CachedPicture`, where a data set is decoded already


class Dataset(Protocol):
    """A data set as checks, checkpoints and messages know it. A user's DataLoader offers no more than this."""

    class_names: list[str] | None
    # The .rec files that hold exactly these samples, of those in a store the local paths beside which what belongs to
    # them lies (`data/storage/snapshot.py`); empty for any other data set.
    files: list[Path]

    @property
    def path(self) -> PurePath:
        """The name that messages give it."""

    def __len__(self) -> int:
        """Return the number of samples in an epoch."""

    def where(self, position: int) -> str:
        """Return the name of one sample for a message."""

    def labels(self) -> Floats:
        """Return all labels, (n,), or (n, k) with k labels a sample; empty where they are not known beforehand."""


class Records(Dataset, Protocol):
    """A data set with random access by position, from any thread; a worker process gets a pickled copy."""

    keys: Ints
    descriptors: tuple[int, ...]  # file descriptors that a worker process must inherit to use its copy

    def read(self, position: int, verify: bool = True) -> Record:
        """Return the record at `position`, compared with its checksum if `verify`; DataError when it is damaged."""

    def will_need(self, positions: Ints) -> None:
        """Start reading these records ahead, without waiting for them."""
