"""Searches over values of flags, by the command `mxtrain.tune` or by the function `tune`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["Search", "tune"]

if TYPE_CHECKING:
    from mxtrain.tune.from_python import Search, tune


def __getattr__(name: str) -> Any:
    """Import what Python programs use when they do: the command answers --help without it."""
    if name in __all__:
        from mxtrain.tune import from_python

        return getattr(from_python, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
