"""Functions in C as operations of MXNet's engine: after what it was asked for with their arrays, before all else."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Sequence

from mxtrain.runtime import mx

if TYPE_CHECKING:
    from mxtrain.runtime.types import NDArray


class _Context(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("number", ctypes.c_int32)]


CPU = _Context(1, 0)
# Of MXNet's FnProperty. Other operations on CPUs wait in one line with the layers that a backward pass still computes,
# and are held back until there are fifteen of them.
NORMAL, PRIORITIZED = ctypes.c_int(0), ctypes.c_int(3)


def handles(arrays: Sequence[NDArray]) -> Any:
    """Return what the engine knows arrays by, as `push` takes it; the arrays must be there as long."""
    return (ctypes.c_void_p * len(arrays))(*(each.handle.value for each in arrays))


NOTHING = handles([])


def push(
    function: int, argument: int, free: int, reads: Any, writes: Any, is_prioritized: bool = False
) -> None:
    """Have the function at an address called with the engine's context and `argument`, which `free` then frees.

    It `reads` and `writes` the arrays of these handles. No two that it writes may lie in the same memory.
    """
    mx.base.check_call(
        mx.base._LIB.MXEnginePushSyncND(
            ctypes.c_void_p(function),
            ctypes.c_void_p(argument),
            ctypes.c_void_p(free),
            ctypes.byref(CPU),
            reads,
            len(reads),
            writes,
            len(writes),
            ctypes.byref(PRIORITIZED if is_prioritized else NORMAL),
            0,
            b"mxtrain",
        )
    )
