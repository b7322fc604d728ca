"""Named arrays as samples: vectors, series, readings. What they are, as records hold them, and as a net takes them.

Owns the payload of such a record, and the .arrays.json beside a .rec. Does not own how samples are read
(`array_reader.py`), where arrays come from (`tables.py`, `array_sets.py`), nor what is predicted
(`data/labels/targets.py`, `data/labels/label_checks.py`).

    payload   for each array that varies in length, in their order, its length as u32; then all arrays, in C order
"""

from __future__ import annotations

import functools
import json
import math
from pathlib import Path
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence

import numpy as np
import numpy.typing as npt

from mxtrain.core import formats, regular_files
from mxtrain.core.errors import DataError
from mxtrain.data.arrays import statistics
from mxtrain.data.arrays.encodings import Encoding, encoding_of_json
from mxtrain.data.arrays.statistics import Statistics
from mxtrain.data.fields import Array, Arrays, BadSample, Field

# In records; int64 is the type of ids, and of nothing else.
DTYPES = ("float16", "float32", "float64", "uint8", "int8", "int16", "int32")
OF_IDS = "int64"
MOST_LENGTHS = 8  # of micro-batches of arrays that vary: a net is compiled for each
MOST_AT_ONCE = 1 << 20  # numbers, of which statistics are made
MASK = "_mask"
_LENGTH = np.dtype("<u4")


class Input(NamedTuple):
    """An array of each sample; one that `varies` has a first dimension of up to that of `shape`.

    Its features are the numbers of a vector, or the columns of anything of more dimensions, such as a series (steps,
    columns); `names` are theirs, where they have some, and `encodings` what they are made of, unless of themselves.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"  # in records
    varies: bool = False
    names: tuple[str, ...] = ()
    statistics: Statistics | None = None
    encodings: tuple[Encoding, ...] = ()
    rows_of: tuple[str, ...] = ()  # of ids: the column whose rows each has, where it is not its own

    @property
    def holds_ids(self) -> bool:
        """Return whether it is of ids, which are looked up in tables, and not of numbers."""
        return self.dtype == OF_IDS

    @property
    def num_features(self) -> int:
        return 1 if self.varies and len(self.shape) == 1 else self.shape[-1]

    @property
    def multiple(self) -> int:
        """The number that lengths are rounded up to a multiple of; 0 where they do not vary."""
        return -(-self.shape[0] // MOST_LENGTHS) if self.varies else 0

    def fields(self) -> tuple[Field, ...]:
        """Return the field of the array, and of its mask if it varies: 1 for each step that the sample has."""
        array = Field(self.name, self.shape, "float32", self.multiple)
        if not self.varies:
            return (array,)
        return array, Field(self.name + MASK, self.shape[:1], "float32", self.multiple)

    def as_json(self) -> dict[str, Any]:
        found = {"name": self.name, "shape": list(self.shape), "dtype": self.dtype, "varies": self.varies}
        numbers = self.statistics and {each: getattr(self.statistics, each).tolist() for each in _STATISTICS}
        encoded = {"encodings": [each.as_json() for each in self.encodings]} if self.encodings else {}
        shared = {"rows_of": list(self.rows_of)} if self.rows_of else {}
        return {**found, "names": list(self.names), **(numbers or {}), **encoded, **shared}

    def __str__(self) -> str:
        most = "up to " if self.varies else ""
        return f"{self.name} {most}{' x '.join(map(str, self.shape))}"


_STATISTICS = ("mean", "deviation")


class Layout(NamedTuple):
    """All that the samples of a data set have in common."""

    inputs: tuple[Input, ...]
    targets: tuple[
        str, ...
    ] = ()  # names of what is to be predicted, the labels of records; none if they have none
    weight: str = ""  # the name of how much a sample counts, which is the last of its labels then

    @property
    def label_names(self) -> tuple[str, ...]:
        """The names of all numbers of a label."""
        return (*self.targets, self.weight) if self.weight else self.targets

    def as_json(self) -> dict[str, Any]:
        described = {"inputs": [each.as_json() for each in self.inputs], "targets": list(self.targets)}
        return {**described, "weight": self.weight} if self.weight else described


def input_of_json(described: Mapping[str, Any]) -> Input:
    """Return the input that `as_json` has described; KeyError, TypeError or ValueError where it is none."""
    numbers = [np.array(described[each], np.float64) for each in _STATISTICS if each in described]
    shape = tuple(map(int, described["shape"]))
    read = Input(described["name"], shape, described["dtype"], described["varies"], tuple(described["names"]))
    if not (shape and min(shape) > 0 and read.dtype in (*DTYPES, OF_IDS) and isinstance(read.name, str)):
        raise ValueError(f"no array has the shape {shape} and the type {read.dtype}")
    if any(each.shape != (read.num_features,) or not np.isfinite(each).all() for each in numbers):
        raise ValueError(f"{read.name} has {read.num_features} features, and other numbers of them")
    encodings = tuple(map(encoding_of_json, described.get("encodings", ())))
    if encodings and sum((each.names for each in encodings), ()) != read.names:
        raise ValueError(f"the features of {read.name} are not those that its encodings make")
    rows_of = tuple(map(str, described.get("rows_of", ())))
    if rows_of and (not read.holds_ids or len(rows_of) != len(read.names or (read.name,))):
        raise ValueError(f"{read.name} does not say of each column whose rows it has")
    measured = Statistics(*numbers) if len(numbers) == 2 else None
    return read._replace(statistics=measured, encodings=encodings, rows_of=rows_of)


# The .arrays.json


def sidecar_path(path: Path) -> Path:
    """Return the path of a .rec's .arrays.json."""
    return path.with_suffix(".arrays.json")


def format_sidecar(layout: Layout, num_records: int) -> bytes:
    """Return the content of the .arrays.json of a .rec with so many records."""
    content = {formats.KEY: formats.ARRAYS, **layout.as_json(), "num_records": num_records}
    return json.dumps(content, indent=1).encode() + b"\n"


def parse_sidecar(content: bytes, path: Path = Path(".arrays.json")) -> tuple[Layout, int]:
    """Return what the .arrays.json at `path` says, and the number of records; ValueError where it makes no sense.

    UsageError where a newer mxtrain has written it.
    """
    try:
        sidecar = json.loads(content)
        formats.refuse_newer(path, sidecar.get(formats.KEY, 1), formats.ARRAYS)
        inputs = tuple(map(input_of_json, sidecar["inputs"]))
        targets = tuple(map(str, sidecar["targets"]))
        weight = str(sidecar.get("weight", ""))
        number = int(sidecar["num_records"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"it makes no sense ({error})") from None
    names = [each.name for each in inputs]
    if not names or len(set(names)) < len(names):
        raise ValueError("it makes no sense: it names no arrays, or one of them twice")
    return Layout(inputs, targets, weight), number


def read_sidecars(recs: Sequence[Path]) -> Layout:
    """Return what the .arrays.json beside all of these files say; DataError where they do not say the same."""
    layouts = [_read_sidecar(rec) for rec in recs]
    for rec, layout in zip(recs, layouts):
        if layout.as_json() != layouts[0].as_json():
            raise DataError(
                f"{sidecar_path(rec)}: its arrays, or their statistics, are not those of {recs[0]}; pack them together "
                "(--shards makes several files)"
            )
    return layouts[0]


def _read_sidecar(rec: Path) -> Layout:
    path = sidecar_path(rec)
    try:
        return parse_sidecar(regular_files.read(path), path)[0]
    except FileNotFoundError:
        raise DataError(
            f"{rec}: has no {path.name} beside it, so it holds no arrays that are known; pack it from a table or "
            "arrays, or copy that file too"
        ) from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise DataError(f"{path}: {error}; copy it again, or pack again") from None


# Payloads


def encode(inputs: Sequence[Input], values: Mapping[str, Any]) -> bytes:
    """Return the payload of a sample, whose arrays have the types and shapes of `inputs`."""
    lengths = [len(values[each.name]) for each in inputs if each.varies]
    parts = [
        np.ascontiguousarray(values[each.name], np.dtype(each.dtype).newbyteorder("<")) for each in inputs
    ]
    return np.array(lengths, _LENGTH).tobytes() + b"".join(part.tobytes() for part in parts)


def decode(inputs: Sequence[Input], payload: Any) -> Arrays:
    """Return the arrays of a payload, as views; BadSample where it is another sample's."""
    num_varying = sum(each.varies for each in inputs)
    at = num_varying * _LENGTH.itemsize
    if len(payload) < at:
        raise BadSample(f"it holds {len(payload)} bytes, too few for the lengths of its arrays")
    lengths = iter(np.frombuffer(payload, _LENGTH, num_varying).tolist())
    arrays: Arrays = {}
    for each in inputs:
        shape = (next(lengths), *each.shape[1:]) if each.varies else each.shape
        dtype = np.dtype(each.dtype).newbyteorder("<")
        end = at + math.prod(shape) * dtype.itemsize
        if end > len(payload):
            raise BadSample(f"it holds {len(payload)} bytes, but its {each.name} {shape} ends at byte {end}")
        arrays[each.name] = np.frombuffer(payload, dtype, math.prod(shape), at).reshape(shape)
        at = end
    if at != len(payload):
        raise BadSample(f"it holds {len(payload)} bytes, but its arrays end at byte {at}")
    return arrays


def refused(inputs: Sequence[Input], values: Mapping[str, Any]) -> str | None:
    """Return why no net can take a sample's arrays; None if one can."""
    for each in inputs:
        if each.name not in values:
            return f"it has no {each.name}, but {', '.join(map(str, values)) or 'nothing'}"
        array = np.asarray(values[each.name])
        if array.dtype.kind not in "biuf":
            return f"its {each.name} holds {array.dtype}, not numbers"
        if not Field(each.name, each.shape, each.dtype, int(each.varies)).fits(array.shape):
            most = ", or fewer steps" if each.varies else ""
            return f"its {each.name} has the shape {array.shape}; it should have {each.shape}{most}"
        if not len(array) and not each.holds_ids:
            return f"its {each.name} has no steps"
        problem = statistics.refused(array)
        if problem:
            return f"its {_feature(each, array)} {problem}"
    return None


def _feature(of: Input, array: Array) -> str:
    """Return the name of the first feature that no net can take, or else the array's."""
    wrong = np.flatnonzero(~(np.abs(array) <= statistics.LARGEST).reshape(-1, of.num_features).all(axis=0))
    return of.names[wrong[0]] if len(wrong) and of.names else of.name


def measured(inputs: Sequence[Input], samples: Iterable[Mapping[str, Any]]) -> tuple[Input, ...]:
    """Return `inputs` with the statistics of all samples, which are gone through twice for each; ids have none."""
    return tuple(each if each.holds_ids else _measured(each, samples) for each in inputs)


def _measured(of: Input, samples: Iterable[Mapping[str, Any]]) -> Input:
    chunks = functools.partial(_feature_rows, of, samples)
    return of._replace(statistics=statistics.of_chunks(chunks, of.num_features))


def _feature_rows(of: Input, samples: Iterable[Mapping[str, Any]]) -> Iterator[npt.NDArray[np.float64]]:
    """Yield the numbers of an input in rows of its features, many at a time."""
    pending: list[npt.NDArray[np.float64]] = []
    for sample in samples:
        pending.append(np.asarray(sample[of.name], np.float64).reshape(-1, of.num_features))
        if len(pending) * pending[-1].size > MOST_AT_ONCE:
            yield np.concatenate(pending)
            pending = []
    if pending:
        yield np.concatenate(pending)


def fields(inputs: Sequence[Input]) -> tuple[Field, ...]:
    """Return the fields of all arrays, and of their masks, in the order in which a net takes them."""
    return tuple(field for each in inputs for field in each.fields())
