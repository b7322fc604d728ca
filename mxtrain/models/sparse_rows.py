"""Arrays of which only some rows are there, as the gradients of an embedding table are.

Owns what MXNet gets wrong about them or hides. What is pulled and pushed row by row is `kvstore/remote.py`'s.
"""

from __future__ import annotations

from typing import Any

from mxtrain.runtime import mx


def is_table(parameter: Any) -> bool:
    """Whether its gradient has only the rows that a batch used."""
    return bool(parameter._grad_stype == "row_sparse")


def whole(array: Any) -> Any:
    """With every row, also those of zeros, which `tostype` leaves out and a server's store must have."""
    rows = mx.nd.arange(array.shape[0], dtype="int64")
    return mx.nd.sparse.row_sparse_array((array.as_in_context(mx.cpu()), rows), shape=array.shape)


def none(shape: Any, context: Any = None) -> Any:
    return mx.nd.sparse.zeros("row_sparse", shape, ctx=context or mx.cpu())


def clear(gradient: Any) -> None:
    """Let it be zero; where MXNet assigns a number to row-sparse arrays they get all rows."""
    if gradient.stype == "row_sparse":
        none(gradient.shape, gradient.context).copyto(gradient)
    else:
        gradient[:] = 0


def numbers(array: Any) -> Any:
    """What there is of the array, flat."""
    return (array.data if array.stype == "row_sparse" else array).reshape((-1,))
