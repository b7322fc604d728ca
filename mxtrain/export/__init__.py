"""From a trained net to what others run: exports, proofs that they answer alike, drawings; as a function, `export`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["Export", "export"]

if TYPE_CHECKING:
    from mxtrain.export.__main__ import export
    from mxtrain.export.exporting import Export


def __getattr__(name: str) -> Any:
    """Import what Python programs use when they do: importing a module of the package loads nothing else of it."""
    if name == "export":
        from mxtrain.export.__main__ import export

        return export
    if name == "Export":
        from mxtrain.export.exporting import Export

        return Export
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
