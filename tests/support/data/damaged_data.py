"""Data sets some of whose pictures cannot be decoded."""

from __future__ import annotations

import shutil
from pathlib import Path

from mxtrain.data.records.record_file import classes_path, open_records
from mxtrain.data.records.record_writer import RecordWriter


def copy(source: Path, target: Path, positions: set[int]) -> None:
    """A .rec and its class names; the pictures at `positions` are cut short."""
    records = open_records(source)
    with RecordWriter(target) as writer:
        for position in range(len(records)):
            key, label, payload = records.read(position)
            writer.write(key, label, bytes(payload)[: -90 if position in positions else None])
    shutil.copy(classes_path(source), classes_path(target))
