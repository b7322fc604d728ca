"""Samples of arrays: their payloads, and the .arrays.json beside each file, with the statistics of its data set."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any, Iterator, Sequence

from mxtrain.data.arrays import array_fields
from mxtrain.data.arrays.array_fields import Layout
from mxtrain.data.records.record_writer import Replacement

from ..sources.item import Item, Source
from .images import PackedItem
from .pack_run import PackRun


def prepare(payload: bytes) -> PackedItem:
    """Return the payload that the source has made, as it is."""
    return PackedItem(payload)


def write_layouts(run: PackRun, source: Source, whole_files: contextlib.ExitStack) -> None:
    """Write what samples are beside each file; all files of a data set have the statistics of all its samples."""
    assert source.layout is not None, "only arrays have one"
    for files, items in run.packed_sets():
        measured = array_fields.measured(source.layout.inputs, _Samples(source, source.layout, items))
        for file in files:
            sidecar = whole_files.enter_context(Replacement(array_fields.sidecar_path(file.path)))
            sidecar.write(
                array_fields.format_sidecar(source.layout._replace(inputs=measured), file.num_records)
            )
            sidecar.sync()


@dataclasses.dataclass(frozen=True)
class _Samples:
    """The arrays of items, read again each time they are gone through."""

    source: Source
    layout: Layout
    items: Sequence[Item]

    def __iter__(self) -> Iterator[Any]:
        return (array_fields.decode(self.layout.inputs, self.source.read(item)) for item in self.items)
