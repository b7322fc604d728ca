"""The source of TFRecords of tf.train.Example with image/encoded and image/class/label, as TensorFlow's scripts write.

    file      records, one after the other
    record    u64 length | u32 masked CRC-32C of the length | data | u32 masked CRC-32C of the data
    Example   features (1) { feature (1) { key (1), value (2) { bytes (1) | floats (2) | int64s (3) } } }

Both checksums are checked: that of a length when the file is listed, that of the data when it is packed.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Dict, Iterator, NamedTuple

from mxtrain.core.errors import DataError
from mxtrain.data.sources.formats import protobuf
from mxtrain.data.sources.formats.crc32c import crc32c
from mxtrain.data.sources.item import BadItem, Item, Source, files_in, read_at
from mxtrain.data.sources.labels import MAX_NUMBERED_CLASSES, RawLabels, resolve_labels

ENCODED, LABEL, TEXT = b"image/encoded", b"image/class/label", b"image/class/text"
_HEAD = struct.Struct("<QI")
Features = Dict[bytes, memoryview]


class _Location(NamedTuple):
    file: int
    offset: int
    num_bytes: int


def is_tfrecord(start: bytes) -> bool:
    """Return whether bytes begin as a TFRecord, by the checksum of its length."""
    return len(start) >= _HEAD.size and _masked(start[:8]) == _HEAD.unpack_from(start)[1]


def read_tfrecords(source: Path, multi_label: bool, unlabelled: bool = False) -> Source:
    """Scan a TFRecord file, or all in a folder; DataError where one is damaged."""
    paths = files_in(source)
    locations: list[_Location] = []
    raw_labels: list[RawLabels] = []
    text_of: dict[int, str] = {}
    for number, path in enumerate(paths):
        for offset, data in _records(path):
            try:
                features = _features(data)
                labels = (0,) if unlabelled else _labels(features)
                texts = list(_bytes(features.get(TEXT, memoryview(b""))))
            except ValueError as error:
                raise DataError(
                    f"{path}: the record at byte {offset} is no tf.train.Example ({error})"
                ) from None
            if len(labels) == len(texts) == 1 and texts[0]:
                text_of.setdefault(labels[0], bytes(texts[0]).decode("utf-8", "replace"))
            locations.append(_Location(number, offset, len(data)))
            raw_labels.append(labels)
    labels_of_items, class_names = resolve_labels(raw_labels, source, multi_label, _class_names(text_of))
    items = [
        Item(f"{paths[location.file].name}:{location.offset}", label, location)
        for location, label in zip(locations, labels_of_items)
    ]

    def read(item: Item) -> bytes:
        location: _Location = item.location
        data = read_at(paths[location.file], location.offset + _HEAD.size, location.num_bytes + 4)
        if _masked(data[:-4]) != int.from_bytes(data[-4:], "little"):
            raise BadItem("its TFRecord checksum differs: the file is damaged")
        image = next(_bytes(_features(memoryview(data)[:-4]).get(ENCODED, memoryview(b""))), None)
        if image is None:
            raise BadItem(f"it has no feature {ENCODED.decode()}")
        return bytes(image)

    return Source(items, read, class_names, files=paths)


def _records(path: Path) -> Iterator[tuple[int, memoryview]]:
    """Yield offset and data of each record."""
    num_bytes, offset = path.stat().st_size, 0
    with path.open("rb") as file:
        while offset < num_bytes:
            head = file.read(_HEAD.size)
            if not is_tfrecord(head):
                raise DataError(f"{path}: no TFRecord starts at byte {offset}: the file is damaged")
            length = _HEAD.unpack(head)[0]
            if offset + _HEAD.size + length + 4 > num_bytes:
                raise DataError(f"{path}: the file ends in the record at byte {offset}: copy it again")
            yield offset, memoryview(file.read(length))
            file.read(4)
            offset += _HEAD.size + length + 4


def _masked(data: bytes) -> int:
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _features(example: memoryview) -> Features:
    found: Features = {}
    for entry in _messages(_messages_of(example, 1), 1):
        parts = dict(protobuf.fields(entry))
        key, value = parts.get(1), parts.get(2, memoryview(b""))
        if isinstance(key, memoryview) and isinstance(value, memoryview):
            found[bytes(key)] = value
    return found


def _messages_of(message: memoryview, number: int) -> Iterator[memoryview]:
    for at, value in protobuf.fields(message):
        if at == number and isinstance(value, memoryview):
            yield value


def _messages(messages: Iterator[memoryview], number: int) -> Iterator[memoryview]:
    for message in messages:
        yield from _messages_of(message, number)


def _bytes(feature: memoryview) -> Iterator[memoryview]:
    return _messages(_messages_of(feature, 1), 1)


def _labels(features: Features) -> tuple[int, ...]:
    if LABEL not in features:
        raise ValueError(
            f"it has no feature {LABEL.decode()}, only {sorted(key.decode() for key in features)}"
        )
    labels: list[int] = []
    for numbers in _messages_of(features[LABEL], 3):
        for at, value in protobuf.fields(numbers):
            if at == 1:
                labels += protobuf.varints(value) if isinstance(value, memoryview) else [value]
    return tuple(protobuf.signed(label) for label in labels)


def _class_names(text_of: dict[int, str]) -> list[str] | None:
    """Return the texts if each class has its own; TensorFlow's scripts often reserve label 0 for the background."""
    if not text_of or min(text_of) < 0 or max(text_of) >= MAX_NUMBERED_CLASSES:
        return None
    names = [text_of.get(label, str(label)) for label in range(max(text_of) + 1)]
    return names if len(set(names)) == len(names) else None
