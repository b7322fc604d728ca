"""The memory of arrays on CPUs, to be read and written where it lies: `asnumpy` and assignment copy."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from mxtrain.runtime import mx

if TYPE_CHECKING:
    from mxtrain.runtime.types import NDArray


def is_in_memory(array: NDArray) -> bool:
    """Return whether an array's numbers lie in memory, all of them and in float32."""
    is_dense = type(array) is mx.nd.NDArray
    return is_dense and array.dtype == np.float32 and array.context.device_type == "cpu"


def memory(array: NDArray) -> Any:
    """Return the numbers of a float32 array on a CPU, where they are, flat; computing them must have been asked for.

    They are the caller's until MXNet is asked to compute with the array again.
    """
    array.wait_to_read()
    return memory_later(array)


def memory_later(array: NDArray) -> Any:
    """Return where the numbers will be; of an array that is no view only once they are computed."""
    size, found = array.size, _address(array)
    if found is None:
        return np.zeros(0, np.float32)
    return np.frombuffer((ctypes.c_float * size).from_address(found), np.float32)


def numbers(array: NDArray) -> Any:
    """Return the numbers of an array in its shape: where they lie, if they are in memory, and else a copy.

    They keep the array's memory, and change with it.
    """
    if not is_in_memory(array):
        return array.asnumpy()
    found = (ctypes.c_float * array.size).from_address(address(array))
    found.array = array  # which keeps its memory for as long as there are numbers
    return np.frombuffer(found, np.float32).reshape(array.shape)


def address(array: NDArray) -> int | None:
    """Return where the numbers of an array are, as `memory` does; None for one that has none."""
    array.wait_to_read()  # until then oneDNN may move it
    return _address(array)


def _address(array: NDArray) -> int | None:
    found = ctypes.c_void_p()
    # Also puts an array that oneDNN has laid out in blocks back in order.
    mx.base.check_call(mx.base._LIB.MXNDArrayGetData(array.handle, ctypes.byref(found)))
    return found.value


def give_back_freed() -> None:
    """Give the system the memory that has been freed, where the C library keeps some for later."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
