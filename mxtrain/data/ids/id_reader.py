"""The function from records with ids to samples, one by one or many at once, to the same bits.

Owns the arrays that a net takes: ids as they are, lists cut to the last ids that count, with their lengths, and numbers
standardised. Does not own payloads (`arrays/array_fields.py`), nor frames (`records/record_batch.py`).
"""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping, Sequence

import numpy as np

from mxtrain.data.arrays import array_fields
from mxtrain.data.arrays.array_fields import Input
from mxtrain.data.arrays.table_columns import Ragged
from mxtrain.data.fields import Array, Arrays, BadSample, Field, Rows
from mxtrain.data.interfaces import Record, Records
from mxtrain.data.labels import sample_weights
from mxtrain.data.records import record_batch
from mxtrain.data.records.recordio import Ints

LENGTHS = "_lengths"


def fields(inputs: Sequence[Input]) -> tuple[Field, ...]:
    """Return the fields of all arrays, in the order in which a net takes them; lists are followed by their lengths."""
    found: list[Field] = []
    for each in inputs:
        found.append(Field(each.name, each.shape, each.dtype if each.holds_ids else "float32", each.multiple))
        if each.varies:
            found.append(Field(each.name + LENGTHS, (), "int32"))
    return tuple(found)


@dataclasses.dataclass(frozen=True)
class IdReader:
    """The reader of samples. A picklable value."""

    inputs: tuple[Input, ...]
    num_labels: int  # that are to be predicted
    weight_place: int | None  # of the weight among the numbers of a label
    is_training: bool  # in an evaluation each sample counts 1, and a record may have no weight

    samples_per_task = 4096

    def __call__(self, record: Record, rng: np.random.Generator, row: Arrays) -> Arrays:
        labels = np.reshape(record.label, (1, -1))
        return {**of_sample(self.inputs, record.payload), **self._of_labels(labels, one=True)}

    def write_many(self, records: Records, positions: Ints, rows: Rows, start: int, verify: bool) -> bool:
        """Write samples into the rows from `start` on; False where they have to be read one by one."""
        columns, labels = columns_of(records, positions, self.inputs, verify)
        if labels is None:
            return False
        try:
            found = {**of_columns(self.inputs, columns), **self._of_labels(labels.reshape(len(labels), -1))}
        except BadSample:
            return False
        own = slice(start, start + len(positions))
        for name, array in found.items():
            if isinstance(array, Ragged):
                rows.arrays[name][own][_is_there(array.lengths, rows.arrays[name].shape[1])] = array.rows
                rows.lengths[name][own] = array.lengths
            else:
                rows.arrays[name][own] = array
        return True

    def _of_labels(self, labels: Array, one: bool = False) -> Arrays:
        weights = np.ones(len(labels), np.float32)
        if self.weight_place is not None and labels.shape[1] == self.num_labels + 1:
            if self.is_training:
                weights = labels[:, self.weight_place]
            labels = np.delete(labels, self.weight_place, axis=1)
        if labels.shape[1] != self.num_labels:
            raise BadSample(f"it has {labels.shape[1]} targets, and the net learns {self.num_labels}")
        if not np.isfinite(labels).all():
            raise BadSample("what is to be predicted is not finite")
        if not ((weights >= 0) & (weights <= sample_weights.LARGEST)).all():
            raise BadSample(
                f"its weight is {weights[0]:g}; give numbers from 0 to {sample_weights.LARGEST:g}"
            )
        found = (
            {"label": labels} if self.weight_place is None else {"label": labels, "sample_weight": weights}
        )
        return {name: array[0] for name, array in found.items()} if one else found


def of_sample(inputs: Sequence[Input], payload: Any) -> Arrays:
    """Return the arrays that a net takes of a record's payload, or of arrays by name; BadSample where it takes none."""
    values = payload if isinstance(payload, Mapping) else array_fields.decode(inputs, payload)
    problem = array_fields.refused(inputs, values)
    if problem:
        raise BadSample(problem)
    columns: dict[str, Any] = {}
    for each in inputs:
        array = np.asarray(values[each.name])
        columns[each.name] = Ragged(array, [len(array)]) if each.varies else array[None]
    return {
        name: array.rows if isinstance(array, Ragged) else array[0]
        for name, array in of_columns(inputs, columns).items()
    }


def of_columns(inputs: Sequence[Input], columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays that a net takes of many samples, lists as `Ragged`."""
    found: dict[str, Any] = {}
    for each in inputs:
        column = columns[each.name]
        if each.varies:
            found[each.name], found[each.name + LENGTHS] = column, column.lengths.astype(np.int32)
        elif each.holds_ids:
            found[each.name] = column
        else:
            assert each.statistics is not None, "numbers are measured before they are read"
            if not np.isfinite(column).all():
                raise BadSample("it holds a number that is not finite")
            found[each.name] = each.statistics.standardised(column).astype(np.float32)
    return found


def columns_of(
    records: Any, positions: Ints, inputs: Sequence[Input], verify: bool
) -> tuple[Mapping[str, Any], Array | None]:
    """Return the columns of samples and their labels; None for labels where there is no way to read many at once."""
    if hasattr(records, "read_columns"):
        found: tuple[Mapping[str, Any], Array] = records.read_columns(positions, inputs, verify)
        return found
    if getattr(records, "columns", None):
        columns = {each.name: chosen(records.columns[each.name], positions) for each in inputs}
        return columns, records.labels()[positions]
    payloads = record_batch.read(records, positions, verify) if hasattr(records, "frames") else None
    if payloads is None:
        return {}, None
    decoded = _decoded(inputs, payloads)
    return ({}, None) if decoded is None else (decoded, payloads.labels)


def chosen(column: Any, positions: Ints) -> Any:
    """Return a column of samples at these positions."""
    if not isinstance(column, Ragged):
        return column[positions]
    lengths = column.lengths[positions]
    return Ragged(column.rows[_inside(column.starts[positions], lengths)], lengths)


def _decoded(inputs: Sequence[Input], payloads: record_batch.Payloads) -> Mapping[str, Any] | None:
    """Return the columns of payloads as `array_fields.encode` writes them; None where one is another sample's."""
    data, at = payloads.data, payloads.starts
    varying = [each for each in inputs if each.varies]
    if (at + 4 * len(varying) > payloads.ends).any():
        return None
    lengths = record_batch.gathered(data, at, 4 * len(varying)).reshape(-1).view("<u4")
    lengths = lengths.reshape(len(at), len(varying)).astype(np.int64)
    sizes = [
        8 * lengths[:, varying.index(each)] if each.varies else np.full(len(at), _num_bytes(each))
        for each in inputs
    ]
    if (at + 4 * len(varying) + sum(sizes) != payloads.ends).any():
        return None
    if any((lengths[:, place] > each.shape[0]).any() for place, each in enumerate(varying)):
        return None
    at = at + 4 * len(varying)
    columns: dict[str, Any] = {}
    for each, size in zip(inputs, sizes):
        dtype = np.dtype(each.dtype).newbyteorder("<")
        if each.varies:
            inside = data[_inside(at, size)]
            columns[each.name] = Ragged(inside.view(dtype), size // 8)
        else:
            columns[each.name] = record_batch.gathered(data, at, _num_bytes(each)).view(dtype)
        at = at + size
    return columns


def _num_bytes(of: Input) -> int:
    return of.shape[0] * np.dtype(of.dtype).itemsize


def _inside(starts: Ints, lengths: Ints) -> Ints:
    """Return the places from each start on, as many as its length, one after the other."""
    before = np.cumsum(lengths) - lengths
    places: Ints = np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))
    return places


def _is_there(lengths: Ints, longest: int) -> Array:
    """Return which places of rows a list fills."""
    return np.arange(longest) < lengths[:, None]
