"""`module:callable`, which stands in for a known name wherever the user's own code may, or an object in its place.

Owns telling such a path from a name, and importing it. The caller runs what it imports, under its flag's name. Objects
that a Python program gave are `config/program_objects.py`'s.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any, Iterable

from mxtrain.config import program_objects
from mxtrain.config.program_objects import NO_OBJECTS, ProgramObjects
from mxtrain.core.errors import UsageError, in_user_code, nearest


def is_import_path(text: str) -> bool:
    """Return True for `module:callable`, unless a file has that name, and for what stands for an object.

    The address of a file in a store is none.
    """
    if program_objects.is_object(text):
        return True
    return ":" in text and "://" not in text and not os.path.exists(text)  # also of any length


def check_name(flag: str, name: str, known: Iterable[str]) -> None:
    """Refuse a name that is neither known, nor the path of an importable module's callable, nor an object's text."""
    known = list(known)
    if name in known or program_objects.is_object(name):
        return
    if ":" not in name:
        choices = f" ({', '.join(known)})" if len(known) < 16 else ""
        raise UsageError(f"{flag} {name}: unknown name{nearest(name, known)}{choices}")
    module = name.split(":")[0]
    try:
        module_spec = importlib.util.find_spec(module.split(".")[0])
    except (ImportError, ValueError):
        module_spec = None
    if module_spec is None:
        raise UsageError(
            f"{flag} {name}: no module '{module}' on the Python path ({Path.cwd()} and PYTHONPATH)"
        )


def search_working_folder() -> None:
    """Let modules be imported from the working folder too, however Python was started."""
    if not any(Path(entry or ".").resolve() == Path.cwd() for entry in sys.path):
        sys.path.insert(0, str(Path.cwd()))


def load_callable(flag: str, path: str, objects: ProgramObjects = NO_OBJECTS) -> Any:
    """Import and return what `package.module:callable` names, or the one of `objects` that stands in place of a name.

    UsageError where there is no such callable.
    """
    if program_objects.is_object(path):
        target = objects.require(flag, path)
        if not callable(target):
            raise UsageError(f"{flag} {path}: is not callable")
        return target
    module_name, _, attribute = path.partition(":")
    search_working_folder()
    try:
        with in_user_code(f"{flag} {path}"):
            target = importlib.import_module(module_name)
        for part in attribute.split("."):
            target = getattr(target, part)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"{flag} {path}: {error}") from None
    if not callable(target):
        raise UsageError(f"{flag} {path}: {attribute} is not callable")
    return target
