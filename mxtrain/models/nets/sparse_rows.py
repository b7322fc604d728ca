"""Row-sparse arrays: the gradients of embedding tables, of which only some rows are there.

Owns workarounds for what MXNet gets wrong about them or hides. Pulling and pushing rows is
`kvstore/server_client.py`'s.
"""

from __future__ import annotations

from typing import Sequence

from mxtrain.runtime import mx
from mxtrain.runtime.types import Device, NDArray, Parameter


def is_table(parameter: Parameter) -> bool:
    """Return whether the parameter's gradient has only the rows that a batch used."""
    return bool(parameter._grad_stype == "row_sparse")


def trained_tables(parameters: Sequence[Parameter]) -> list[Parameter]:
    """Return the tables that a step moves, for which servers update; a frozen one is a weight like any other."""
    return [each for each in parameters if each.grad_req != "null" and is_table(each)]


def with_all_rows(array: NDArray) -> NDArray:
    """Return `array` as row-sparse with every row: `tostype` leaves out rows of zeros, which a server must have."""
    rows = mx.nd.arange(array.shape[0], dtype="int64")
    return mx.nd.sparse.row_sparse_array((array.as_in_context(mx.cpu()), rows), shape=array.shape)


def empty(shape: tuple[int, ...], context: Device | None = None) -> NDArray:
    """Return a row-sparse array without rows."""
    return mx.nd.sparse.zeros("row_sparse", shape, ctx=context or mx.cpu())


def set_zero(gradient: NDArray) -> None:
    """Set a gradient to zero; assigning a number would give a row-sparse one all rows."""
    if gradient.stype == "row_sparse":
        empty(gradient.shape, gradient.context).copyto(gradient)
    else:
        gradient[:] = 0


def stored_values(array: NDArray) -> NDArray:
    """Return the elements that the array stores, flat."""
    return (array.data if array.stype == "row_sparse" else array).reshape((-1,))
