"""Nets and their layers. Names are known without mxnet; layers come when they are asked for."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "SparseEmbedding":
        from mxtrain.models.sparse import SparseEmbedding

        return SparseEmbedding
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
