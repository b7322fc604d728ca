"""Encoding of named arrays in the format of `mx.nd.load` and `mx.nd.save`.

Needs no mxnet, so that a thread can write while a step runs. `mx.nd.save` reports no error when a full disk cuts its
file, and its bytes could be checked only by reading them back.
"""

from __future__ import annotations

import functools
import math
import struct
from pathlib import Path
from typing import (
    IO,
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterator,
    Mapping,
    NamedTuple,
    Sequence,
    TypeVar,
    Union,
)

if TYPE_CHECKING:  # --help of commands on trained nets comes by here, and numpy takes a third of its time
    import numpy as np

Arrays = Dict[str, "np.ndarray[Any, Any]"]
NamedArrays = Mapping[str, "np.ndarray[Any, Any]"]  # perhaps made as they are asked for
Chunk = Union[bytes, memoryview]
A = TypeVar("A")  # an array, of NumPy's or of another's

FILE_MAGIC, ARRAY_MAGIC = 0x112, 0xF993FAC9
DENSE, CPU = 0, 1
TYPE_NUMBERS = {
    name: number
    for number, name in enumerate(
        ["float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool"]
    )
}


def encoded(arrays: NamedArrays) -> Iterator[Chunk]:
    """Yield the file in pieces; arrays are not copied, and each is asked for when its turn comes."""
    import numpy as np

    yield struct.pack("<QQQ", FILE_MAGIC, 0, len(arrays))
    for array in arrays.values():
        type_number = TYPE_NUMBERS[array.dtype.name]
        yield struct.pack(f"<Iii{array.ndim}q", ARRAY_MAGIC, DENSE, array.ndim, *array.shape)
        yield struct.pack("<iii", CPU, 0, type_number)
        yield np.ascontiguousarray(array).data.cast("B")
        del array
        yield b""  # so that nobody holds an array any more when the next one is made
    yield struct.pack("<Q", len(arrays))
    for name in arrays:
        yield struct.pack("<Q", len(name.encode())) + name.encode()


class ArraysOneByOne(Mapping[str, A]):
    """Named arrays that are made when they are asked for, so that there is never more than one."""

    def __init__(self, makers: Mapping[str, Callable[[], A]]):
        self._makers = makers

    def __getitem__(self, name: str) -> A:
        return self._makers[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


def joined(*several: Mapping[str, A]) -> ArraysOneByOne[A]:
    """Return the arrays of all these, each looked up when it is asked for."""
    return ArraysOneByOne(
        {name: functools.partial(each.__getitem__, name) for each in several for name in each}
    )


class Place(NamedTuple):
    """The place of an array in a file."""

    offset: int
    shape: tuple[int, ...]
    dtype: str


def opened(path: Path) -> NamedArrays:
    """Return the arrays of a file that `encoded` has made; ValueError for another one."""

    def reader(place: Place) -> Callable[[], np.ndarray[Any, Any]]:
        return lambda: _array_at(path, place)

    return ArraysOneByOne({name: reader(place) for name, place in places_in(path).items()})


def places_in(path: Path) -> dict[str, Place]:
    """Return where in a file its arrays are, by their names; ValueError where that is no file of dense arrays."""
    with path.open("rb") as file:
        magic, _, count = _read(file, "<QQQ")
        if magic != FILE_MAGIC:
            raise ValueError(f"{path}: not a file of MXNet's arrays")
        places = [_place_of_next(file, path) for _ in range(count)]
        _read(file, "<Q")
        names = [file.read(*_read(file, "<Q")).decode() for _ in range(count)]
    return dict(zip(names, places))


def _place_of_next(file: IO[bytes], path: Path) -> Place:
    magic, kind, num_axes = _read(file, "<Iii")
    if magic != ARRAY_MAGIC or kind != DENSE:
        raise ValueError(f"{path}: holds an array that is not dense")
    shape = _read(file, f"<{num_axes}q")
    *_, type_number = _read(file, "<iii")
    dtype = next(name for name, number in TYPE_NUMBERS.items() if number == type_number)
    place = Place(file.tell(), tuple(shape), dtype)
    file.seek(_num_bytes(place), 1)
    return place


def _num_bytes(place: Place) -> int:
    import numpy as np

    return math.prod(place.shape) * np.dtype(place.dtype).itemsize


def _array_at(path: Path, place: Place) -> np.ndarray[Any, Any]:
    import numpy as np

    found = np.fromfile(path, place.dtype, math.prod(place.shape), offset=place.offset)
    return found.reshape(place.shape)


def _read(file: IO[bytes], layout: str) -> Sequence[int]:
    return struct.unpack(layout, file.read(struct.calcsize(layout)))
