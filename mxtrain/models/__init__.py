"""Nets and their layers. Importing the package does not load mxnet; importing `SparseEmbedding` from it does."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "SparseEmbedding":
        from mxtrain.models.nets.sparse import SparseEmbedding

        return SparseEmbedding
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
