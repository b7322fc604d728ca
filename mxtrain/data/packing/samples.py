"""Samples of arrays: their payloads, and the .arrays.json beside each file, with the statistics of its data set."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from typing import Any, Callable, Iterator

from mxtrain.data.arrays import array_fields, statistics
from mxtrain.data.arrays.array_fields import Input, Layout
from mxtrain.data.packing.pack_run import PackRun
from mxtrain.data.packing.pictures.images import PackedItem
from mxtrain.data.records.record_writer import Replacement
from mxtrain.data.sources.item import Item, Numbers, Source

AT_ONCE = 1 << 14  # items


def prepare(payload: bytes) -> PackedItem:
    """Return the payload that the source has made, as it is."""
    return PackedItem(payload)


def write_layouts(run: PackRun, source: Source, whole_files: contextlib.ExitStack) -> None:
    """Write what samples are beside each file; all files of a data set have the statistics of all its samples."""
    assert source.layout is not None, "only arrays have one"
    for files, items in run.packed_sets():
        if source.numbers:
            measured = tuple(_measured(each, source.numbers, items) for each in source.layout.inputs)
        else:
            measured = array_fields.measured(source.layout.inputs, _Samples(source, source.layout, items))
        for file in files:
            sidecar = whole_files.enter_context(Replacement(array_fields.sidecar_path(file.path)))
            sidecar.write(
                array_fields.format_sidecar(source.layout._replace(inputs=measured), file.num_records)
            )
            sidecar.sync()


def _measured(of: Input, numbers: Numbers, items: Callable[[], Iterator[Item]]) -> Input:
    """Return an array with the statistics of many items at a time; ids have none."""
    if of.holds_ids:
        return of

    def chunks() -> Iterator[Any]:
        remaining = items()
        for some in iter(lambda: list(itertools.islice(remaining, AT_ONCE)), []):
            yield numbers(of.name, some)

    return of._replace(statistics=statistics.of_chunks(chunks, of.num_features))


@dataclasses.dataclass(frozen=True)
class _Samples:
    """The arrays of items, read again each time they are gone through."""

    source: Source
    layout: Layout
    items: Callable[[], Iterator[Item]]

    def __iter__(self) -> Iterator[Any]:
        return (array_fields.decode(self.layout.inputs, self.source.read(item)) for item in self.items())
