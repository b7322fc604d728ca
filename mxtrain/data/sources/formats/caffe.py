"""The source of Caffe's LMDB databases: a `Datum` message for each key, with an encoded image or raw pixels.

    Datum    channels (1), height (2), width (3), data (4), label (5), float_data (6), encoded (7)

Raw pixels are planes, blue first; they are packed as PNG, which loses nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from mxtrain.core import regular_files
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.sources.formats import protobuf
from mxtrain.data.sources.formats.raw_pixels import as_png
from mxtrain.data.sources.item import BadItem, Item, Source
from mxtrain.data.sources.labels import RawLabels, resolve_labels

_CHANNELS, _HEIGHT, _WIDTH, _DATA, _LABEL, _FLOATS, _ENCODED = range(1, 8)


def read_lmdb(source: Path) -> Source:
    """Read the keys and labels of a database; DataError where it is damaged, or holds no Datum."""
    file = source / "data.mdb" if source.is_dir() else source
    regular_files.require(file)
    database = _open(source)
    keys: list[bytes] = []
    raw_labels: list[RawLabels] = []
    with database.begin(buffers=True) as transaction:
        for key, value in transaction.cursor():
            keys.append(bytes(key))
            try:
                raw_labels.append((_label(memoryview(value)),))
            except ValueError as error:
                raise DataError(f"{source}: what is under {keys[-1]!r} is no Caffe Datum ({error})") from None
    labels, class_names = resolve_labels(raw_labels, source, multi_label=False)
    items = [Item(key.decode("utf-8", "backslashreplace"), label, key) for key, label in zip(keys, labels)]

    def read(item: Item) -> bytes:
        with database.begin() as transaction:
            value = transaction.get(item.location)
        return _image(dict(protobuf.fields(memoryview(value))))

    return Source(items, read, class_names, files=[file])


def _open(source: Path) -> Any:
    try:
        import lmdb
    except ImportError:
        raise UsageError("reading LMDB needs the package lmdb: pip install 'mxtrain[sources]'") from None
    try:
        return lmdb.open(str(source), subdir=source.is_dir(), readonly=True, lock=False, readahead=False)
    except lmdb.Error as error:
        raise DataError(f"{source} is no LMDB database, or a damaged one ({error})") from None


def _label(datum: memoryview) -> int:
    # proto2 leaves out a field that was not set, which then is 0.
    found = [value for number, value in protobuf.fields(datum) if number == _LABEL]
    label = found[-1] if found else 0
    if not isinstance(label, int):
        raise ValueError("its label is no number")
    return protobuf.signed(label)


def _image(datum: dict[int, Any]) -> bytes:
    data = datum.get(_DATA)
    if not isinstance(data, memoryview):
        content = "floats" if _FLOATS in datum else "neither an image nor pixels"
        raise BadItem(f"its Datum holds {content}, not bytes")
    if datum.get(_ENCODED):
        return bytes(data)
    shape = tuple(datum.get(number, 0) for number in (_CHANNELS, _HEIGHT, _WIDTH))
    if not all(isinstance(side, int) for side in shape) or int(np.prod(shape)) != len(data) or not len(data):
        raise BadItem(f"its Datum announces {shape} pixels and holds {len(data)}")
    planes = np.frombuffer(data, np.uint8).reshape(shape)
    return as_png((planes[::-1] if shape[0] == 3 else planes).transpose(1, 2, 0))
