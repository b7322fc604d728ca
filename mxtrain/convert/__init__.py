"""Conversion of what other frameworks write into run folders, and back into what they read; a function, `convert`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["convert"]

if TYPE_CHECKING:
    from mxtrain.convert.__main__ import convert


def __getattr__(name: str) -> Any:
    """Import what Python programs use when they do: importing a module of the package loads nothing else of it."""
    if name == "convert":
        from mxtrain.convert.__main__ import convert

        return convert
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
