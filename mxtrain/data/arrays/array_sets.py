"""Data sets of named arrays: what their samples are, and `Records` of arrays that are in memory.

Owns finding the layout of a data set: beside its .rec files, of a table, or by looking at every sample of a user's own.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from types import MappingProxyType
from typing import Any, Callable, Iterator, Mapping, Sequence

import numpy as np

from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.arrays import array_fields
from mxtrain.data.arrays.array_fields import Input, Layout
from mxtrain.data.fields import Arrays
from mxtrain.data.interfaces import Dataset, Record
from mxtrain.data.records.recordio import Floats, Ints

TARGETS = ("target", "targets", "label", "labels", "y", "class")  # what is predicted where nobody says it
ONLY = "data"  # the name of an array that has none


class ArrayRecords:
    """`Records` of samples in memory: named arrays by position, with a label for each."""

    descriptors: tuple[int, ...] = ()

    def __init__(
        self,
        path: Path,
        layout: Layout,
        samples: Sequence[Arrays],
        labels: Floats,
        class_names: list[str] | None,
        row_name: Callable[[int], str],
        columns: Mapping[str, Any] = MappingProxyType({}),
    ):
        self.path, self.layout, self.class_names = path, layout, class_names
        self.files: list[Path] = []
        self.keys: Ints = np.arange(len(labels))
        self.columns = columns  # of all samples, where they lie so
        self._samples, self._labels, self._row_name = samples, labels, row_name

    def __len__(self) -> int:
        return len(self._labels)

    def read(self, position: int, verify: bool = True) -> Record:
        label = self._labels[position]
        return Record(position, float(label) if label.ndim == 0 else label, self._samples[position])

    def checksum(self, position: int) -> int:
        """Return the CRC-32 of a sample's arrays, whatever kind of file they are from."""
        found = 0
        for name, array in sorted(self._samples[position].items()):
            own = np.ascontiguousarray(array)
            found = zlib.crc32(f"{name} {own.shape}".encode(), found)
            found = zlib.crc32(own.astype(own.dtype.newbyteorder("<")).tobytes(), found)
        return found

    def where(self, position: int) -> str:
        return f"{self.path}: {self._row_name(position)}"

    def will_need(self, positions: Ints) -> None:
        """Do nothing: all samples are in memory."""

    def labels(self) -> Floats:
        return self._labels


def layout_of(dataset: Dataset, val: Dataset | None = None) -> Layout:
    """Return the arrays of a training set, with its statistics, as long as the longest of `val` too, if they vary."""
    found = _layout_of(dataset)
    other = {each.name: each for each in _inputs_known(val)} if val is not None else {}
    inputs = []
    for each in found.inputs:
        longest = max(each.shape[0], other.get(each.name, each).shape[0]) if each.varies else each.shape[0]
        inputs.append(each._replace(shape=(longest, *each.shape[1:])))
    return found._replace(inputs=tuple(inputs))


def _inputs_known(dataset: Any) -> Sequence[Input]:
    """Return the arrays of a data set, perhaps without statistics."""
    if dataset.files:
        return array_fields.read_sidecars(dataset.files).inputs
    if getattr(dataset, "layout", None) is not None:
        found: Sequence[Input] = dataset.layout.inputs
        return found
    return _inputs_of(dataset)


def inputs_known(dataset: Dataset) -> Sequence[Input]:
    """Return the arrays that files of a data set describe; none of a user's own."""
    return _inputs_known(dataset) if dataset.files or getattr(dataset, "layout", None) else ()


def _layout_of(dataset: Dataset) -> Layout:
    """Return a training set's arrays and statistics; DataError names what no net can be made for."""
    if dataset.files:
        layout = array_fields.read_sidecars(dataset.files)
        if any(each.holds_ids for each in layout.inputs):
            raise DataError(f"{dataset.path}: holds ids; give --task recommendation")
        return layout
    known: Layout | None = getattr(dataset, "layout", None)
    if known is None:
        if not hasattr(dataset, "read"):
            raise DataError(
                f"{dataset.path}: gives batches, and no samples to find shapes and statistics in; give a Dataset, "
                "arrays or a .rec"
            )
        known = Layout(_inputs_of(dataset))
    if all(each.statistics for each in known.inputs):
        return known
    samples = _Payloads(dataset)
    _refuse_bad(dataset, known.inputs, samples)
    return known._replace(inputs=array_fields.measured(known.inputs, samples))


def check(dataset: Dataset, inputs: Sequence[Input]) -> None:
    """Refuse a data set whose arrays are not those that a net was trained on, with a DataError."""
    known = {each.name: each for each in inputs}
    known_inputs = _inputs_known(dataset)
    for each in known_inputs:
        other = known.get(each.name)
        if other is None:
            raise DataError(f"{dataset.path}: has an array {each.name}; the net takes {', '.join(known)}")
        if not _fits(each, other):
            raise DataError(
                f"{dataset.path}: has {each}, but the net takes {other}; pack training and validation together"
            )
        if each.names != other.names:
            odd = next(name for name, of_net in zip(each.names, other.names) if name != of_net)
            raise DataError(
                f"{dataset.path}: its columns are others, or in another order: {odd} is not at its place"
            )
        if each.rows_of != other.rows_of:
            raise DataError(
                f"{dataset.path}: its columns share other rows than those of the net; pack it with the net's "
                "--shared-embedding"
            )
    missing = set(known) - {each.name for each in known_inputs}
    if missing:
        raise DataError(f"{dataset.path}: has no array {min(missing)}, which the net takes")


def _fits(one: Input, other: Input) -> bool:
    if (one.varies and not other.varies) or len(one.names) != len(other.names):
        return False
    longest = one.shape[0] <= other.shape[0] if other.varies else one.shape[0] == other.shape[0]
    return longest and one.shape[1:] == other.shape[1:]


def pair_of_mapping(item: Mapping[str, Any], user: str) -> tuple[Any, Any]:
    """Return a sample by names as its arrays and its target."""
    target = next((name for name in TARGETS if name in item), None)
    if target is None:
        raise UsageError(
            f"{user}: gives {', '.join(map(str, item))}, and no target among them ({', '.join(TARGETS)})"
        )
    return {name: each for name, each in item.items() if name != target}, item[target]


def named(payload: Any) -> Mapping[str, Any]:
    """Return a sample's arrays by name; one alone is called `data`."""
    return payload if isinstance(payload, Mapping) else {ONLY: payload}


class _Payloads:
    """The arrays of all samples of a data set in memory, which can be gone through again and again."""

    def __init__(self, dataset: Any):
        self._dataset = dataset

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        for position in range(len(self._dataset)):
            yield named(self._dataset.read(position).payload)


def _inputs_of(dataset: Any) -> tuple[Input, ...]:
    """Return the arrays that all samples of a user's data set have; a first dimension may vary."""
    shapes: dict[str, set[tuple[int, ...]]] = {}
    for position, sample in enumerate(_Payloads(dataset)):
        if shapes and sorted(shapes) != sorted(sample):
            raise DataError(
                f"{dataset.where(position)} has the arrays {', '.join(map(str, sample))}, the others "
                f"{', '.join(shapes)}"
            )
        for name, array in sample.items():
            try:
                shapes.setdefault(str(name), set()).add(np.shape(array))
            except ValueError:
                raise DataError(
                    f"{dataset.where(position)}: {name} is no array: its rows differ in length"
                ) from None
    return tuple(input_of_shapes(str(dataset.path), name, found) for name, found in shapes.items())


def input_of_shapes(where: str, name: str, shapes: set[tuple[int, ...]]) -> Input:
    """Return the input that has all of these shapes; DataError where they differ in more than the first dimension."""
    longest = max(shapes)
    if any(len(each) != len(longest) or each[1:] != longest[1:] for each in shapes) or not longest:
        listed = " and ".join(str(each) for each in sorted(shapes)[:2])
        raise DataError(
            f"{where}: {name} has samples of shape {listed}; give arrays of one or more dimensions, of which only the "
            "first may vary"
        )
    if not np.prod(longest):
        raise DataError(f"{where}: {name} is of shape {longest}, and holds nothing")
    return Input(name, longest, varies=len(shapes) > 1)


def _refuse_bad(dataset: Dataset, inputs: Sequence[Input], samples: _Payloads) -> None:
    for position, sample in enumerate(samples):
        problem = array_fields.refused(inputs, sample)
        if problem:
            raise DataError(f"{dataset.where(position)}: {problem}; mend it or leave it out")
