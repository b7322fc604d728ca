"""Searches over values of flags, by the command `mxtrain.tune` or by the function `tune`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mxtrain.core.late_names import late_names

__all__ = ["Search", "tune"]

if TYPE_CHECKING:
    from mxtrain.tune.from_python import Search, tune

__getattr__ = late_names(__name__, {"Search": "mxtrain.tune.from_python", "tune": "mxtrain.tune.from_python"})
