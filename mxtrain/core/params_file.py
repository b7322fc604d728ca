"""Encoding of named arrays in the format of `mx.nd.load` and `mx.nd.save`.

Needs no mxnet, so that a thread can write while a step runs. `mx.nd.save` reports no error when a full disk cuts its
file, and its bytes could be checked only by reading them back.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Dict, Iterator, Union

if TYPE_CHECKING:  # --help of commands on trained nets comes by here, and numpy takes a third of its time
    import numpy as np

Arrays = Dict[str, "np.ndarray[Any, Any]"]
Chunk = Union[bytes, memoryview]

FILE_MAGIC, ARRAY_MAGIC = 0x112, 0xF993FAC9
DENSE, CPU = 0, 1
TYPE_NUMBERS = {
    name: number
    for number, name in enumerate(
        ["float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool"]
    )
}


def encoded(arrays: Arrays) -> Iterator[Chunk]:
    """Yield the file in pieces; arrays are not copied."""
    import numpy as np

    yield struct.pack("<QQQ", FILE_MAGIC, 0, len(arrays))
    for array in arrays.values():
        type_number = TYPE_NUMBERS[array.dtype.name]
        yield struct.pack(f"<Iii{array.ndim}q", ARRAY_MAGIC, DENSE, array.ndim, *array.shape)
        yield struct.pack("<iii", CPU, 0, type_number)
        yield np.ascontiguousarray(array).data.cast("B")
    yield struct.pack("<Q", len(arrays))
    for name in arrays:
        yield struct.pack("<Q", len(name.encode())) + name.encode()
