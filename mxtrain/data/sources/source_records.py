"""A source as a data set: its items are read where they lie, as `pack` would have packed them.

Records are in the order that `pack` gives them, with its labels and class names, so a folder and what is packed of it
are the same samples. Owns opening and reading; what an item is belongs to each source, what is done to pictures by
`pack` for the sake of other readers (restart markers, another format) is not done here. Texts are `text_records.py`'s.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from pathlib import Path
from typing import Any, Callable, Iterator

import numpy as np

from mxtrain.core import plain_text
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.decode import pillow_decode
from mxtrain.data.decode.jpeg import BadPicture
from mxtrain.data.interfaces import Record
from mxtrain.data.records.recordio import Floats, Ints
from mxtrain.data.sources import order
from mxtrain.data.sources.item import BadItem, Source
from mxtrain.data.sources.opening import NO_OPTIONS, SourceOptions, open_source
from mxtrain.data.sources.recognise import UnknownSource, recognise
from mxtrain.data.sources.samples import ONE_LABEL, Labels
from mxtrain.data.sources.source_types import SOURCE_TYPES

ARCHIVES = ("webdataset", "tfrecord", "lmdb", "hdf5")
SEED = 0  # of the order, as `pack` has it where none is asked for
# What a task's labels make of a type that could be several.
OF_BOXES = {"csv": "boxes", "lst": "lst_boxes", "rec": "rec_boxes"}
OF_TEXTS = ("text", "tagged_text")  # the types that what holds texts is recognised as
OF_MASKS = {"voc": "masks", "coco": "coco_masks", "yolo": "yolo_masks", "csv": "mask_list"}


class SourceRecords:
    """The `Records` of a source."""

    is_source = True  # by which others know one without importing this

    def __init__(self, path: Path, source: Source, source_type: str, options: SourceOptions):
        self.path, self.source_type = path, source_type
        self.class_names = list(source.class_names) if source.class_names else None
        self.files: list[Path] = []
        self.descriptors: tuple[int, ...] = ()
        self.has_checksums = False
        self._source, self._options = source, options
        self._items = source.items if options.unlabelled else order.shuffled(source.items, SEED)
        self.keys: Ints = np.arange(len(self._items))
        self._labels: list[Any] | None = None

    def __len__(self) -> int:
        return len(self._items)

    def __reduce__(self) -> tuple[Callable[..., SourceRecords], tuple[Any, ...]]:
        """Return how a worker process opens the same; it may find other files by then, and says so."""
        return _reopen, (self.path, self.source_type, self._options, self._names())

    def where(self, position: int) -> str:
        """Return the name of an item for a message."""
        return f"{self.path}: {plain_text.printable(self._source.display_name(self._items[position]))}"

    def name(self, position: int) -> str:
        """Return the name of an item as if it were a file, in the place of the archive that holds it."""
        folder = self.path if self.path.is_dir() else self.path.parent
        return str(folder / self._items[position].name)

    def read(self, position: int, verify: bool = True) -> Record:
        """Return an item as it is packed; DataError where it cannot be read."""
        with self._named(position):
            return self._read(position)

    def _read(self, position: int) -> Record:
        payload: Any = self._source.read(self._items[position])
        if not self._source.holds_masks and pillow_decode.is_one(payload):
            payload = pillow_decode.decode(payload)
        return Record(position, self._label(position), payload)

    def content(self, position: int) -> bytes:
        """Return the bytes of an item as its source has them; DataError where they cannot be read."""
        with self._named(position):
            return bytes(self._source.read(self._items[position]))

    @contextlib.contextmanager
    def _named(self, position: int) -> Iterator[None]:
        """Say which item cannot be read."""
        try:
            yield
        except (BadItem, BadPicture) as bad:
            raise DataError(f"{self.where(position)}: {' '.join(str(bad).split())}") from None
        except OSError as error:
            raise DataError(f"{self.where(position)}: it cannot be read ({error.strerror})") from None

    def will_need(self, positions: Ints) -> None:
        """Ask the kernel to read these items ahead, where each is a file of its own."""
        path_of = self._source.path_of
        if path_of is None:
            return
        for position in positions.tolist():
            try:
                descriptor = os.open(path_of(self._items[position]), os.O_RDONLY | os.O_NONBLOCK)
            except OSError:
                continue  # `read` says why
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_WILLNEED)
            except OSError:  # a pipe, say
                pass
            finally:
                os.close(descriptor)

    def checksum(self, position: int) -> int:
        """Return the checksum of an item's bytes."""
        payload = self.read(position).payload
        return zlib.crc32(payload.tobytes() if isinstance(payload, np.ndarray) else payload)

    def labels(self) -> Floats:
        """Return all labels, (n,), or (n, k) with k an item, which may be one; DataError where items have unlike k."""
        rows = self.label_rows()
        odd = next((place for place, row in enumerate(rows) if row.shape != rows[0].shape), None)
        if odd is not None:
            raise DataError(f"{self.where(odd)}: has {len(rows[odd])} labels, {self.where(0)} {len(rows[0])}")
        every = np.stack(rows)
        return every if isinstance(self._items[0].label, tuple) else every[:, 0]

    def flat_labels(self) -> Floats:
        """Return the labels of all items one after the other, however many each has."""
        return np.concatenate(self.label_rows())

    def label_rows(self) -> list[Floats]:
        """Return the labels of each item, however many it has."""
        if self._labels is None:
            self._labels = [np.atleast_1d(np.asarray(item.label, np.float32)) for item in iter(self._items)]
        return self._labels

    def _label(self, position: int) -> Any:
        label = self._items[position].label
        return np.asarray(label, np.float32) if isinstance(label, tuple) else float(label)

    def _names(self) -> int:
        return zlib.crc32(
            "\0".join(item.name for item in iter(self._items)).encode("utf-8", "surrogateescape")
        )


def open_records(path: Path, labels: Labels = ONE_LABEL) -> SourceRecords:
    """Open a source by its path, of the type that a task's labels need.

    DataError or UsageError where it is none, or holds what has to be read as a table.
    """
    return _opened(path, *type_of(path, labels))


def open_archive(path: Path) -> SourceRecords | None:
    """Open an archive of pictures or a folder of such, in its own order and without labels; None where it is none."""
    try:
        source_type = recognise(path)
    except UnknownSource:
        return None
    return _opened(path, source_type, SourceOptions(unlabelled=True)) if source_type in ARCHIVES else None


def type_of(path: Path, labels: Labels) -> tuple[str, SourceOptions]:
    """Return the type of the source that a task with these labels needs, and the options it is opened with."""
    source_type = recognise(path)
    if labels.text_type:
        if source_type not in OF_TEXTS:
            raise UsageError(f"{path}: is {SOURCE_TYPES[source_type].help}, and holds no text to learn from")
        return labels.text_type, NO_OPTIONS
    if source_type in OF_TEXTS:
        raise DataError(f"{path}: holds text, from which --task lm, sequence_classification and others learn")
    source_type = (OF_MASKS if labels.are_masks else OF_BOXES if labels.are_boxes else {}).get(
        source_type, source_type
    )
    takes_several = labels.are_several and "multi_label" in SOURCE_TYPES[source_type].options
    return source_type, SourceOptions(multi_label=takes_several)


def _opened(path: Path, source_type: str, options: SourceOptions) -> SourceRecords:
    source = open_source(path, source_type, options)
    if source.layout is not None:
        raise DataError(f"{path}: holds arrays; --task arrays learns from them as they are")
    if not len(source.items):
        noun = "texts" if source.holds_text else "pictures"
        raise DataError(f"{path}: holds no {noun}; there is nothing to learn from")
    if source.holds_text:
        from mxtrain.data.sources.text_records import TextRecords

        return TextRecords(path, source, source_type, options)
    return SourceRecords(path, source, source_type, options)


def _reopen(path: Path, source_type: str, options: SourceOptions, names: int) -> SourceRecords:
    records = _opened(path, source_type, options)
    if records._names() != names:
        raise DataError(
            f"{path}: holds other files than a moment ago; leave it alone while it is learnt from"
        )
    return records
