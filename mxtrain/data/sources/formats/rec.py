"""The source of other .rec files, ours or those of MXNet's im2rec, one or a folder of shards."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Sequence

import numpy as np

from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.boxes import box_labels
from mxtrain.data.records.record_file import RecordFile, classes_path, index_path, open_records
from mxtrain.data.sources.item import BadItem, Item, Source, files_in
from mxtrain.data.sources.labels import RawLabels, resolve_labels


def read_rec(source: Path, multi_label: bool) -> Source:
    """Read the labels of a .rec, or of all in a folder; DataError where their class lists differ."""
    paths = files_in(source, (".rec",))
    files = [open_records(path) for path in paths]
    names = {tuple(file.class_names or ()) for file in files}
    if len(names) > 1:
        raise DataError(f"the .rec files in {source} have different class lists: pack them one by one")
    raw_labels: list[RawLabels] = []
    _refuse_boxes(files)
    for file in files:
        raw_labels += [tuple(row) for row in np.atleast_2d(file.labels().T).T.tolist()]
    labels, class_names = resolve_labels(raw_labels, source, multi_label, next(iter(names)))
    parts = [part for path in paths for part in (path, index_path(path), classes_path(path))]
    places = [(number, at) for number, file in enumerate(files) for at in range(len(file))]
    items = [
        Item(f"{paths[number].name}:{files[number].keys[at]}", label, (number, at))
        for (number, at), label in zip(places, labels)
    ]

    def read(item: Item) -> bytes:
        number, at = item.location
        try:
            return bytes(files[number].read(at).payload)
        except DataError as error:
            raise BadItem(str(error)) from None

    def origin_of(item: Item) -> str | None:
        number, at = item.location
        records: RecordFile = files[number]
        return records.source_names().of(int(records.keys[at]))

    return Source(items, read, class_names, files=parts, origin_of=origin_of)


def _refuse_boxes(files: Sequence[RecordFile]) -> None:
    """Refuse records whose labels differ in length because they are boxes, with a UsageError that says what to do."""
    for file in files:
        labels = file.label_rows()
        with contextlib.suppress(ValueError):
            if (
                len({np.size(label) for label in labels}) > 1
                and box_labels.boxes_of(labels[0], 1, 1) is not None
            ):
                raise UsageError(f"{file.path}: its labels are boxes; give --from rec_boxes")
