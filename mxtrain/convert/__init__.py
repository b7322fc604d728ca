"""Conversion of what other frameworks write into run folders, and back into what they read; a function, `convert`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mxtrain.core.late_names import late_names

__all__ = ["convert"]

if TYPE_CHECKING:
    from mxtrain.convert.__main__ import convert

__getattr__ = late_names(__name__, {"convert": "mxtrain.convert.__main__"})
