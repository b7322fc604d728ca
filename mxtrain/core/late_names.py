"""Names of a module that are imported when somebody takes them: importing the module itself loads nothing for them."""

from __future__ import annotations

import importlib
from typing import Any, Callable, Mapping


def late_names(module: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of `module`, for names whose own modules are `homes`, {name: module}."""

    def imported(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return getattr(importlib.import_module(homes[name]), name)

    return imported
