"""Flags given in Python: `Run.of(epochs=3)`, and what `fit(...)` takes in the place of names.

Owns what each type of flag may be in Python, and the refusals. Ranges of numbers are `config/checks/bounds.py`'s.
"""

from __future__ import annotations

import dataclasses
import numbers
import os
from typing import Any, Mapping

from mxtrain.config import schema
from mxtrain.config.flags import fit_parser, typed_text
from mxtrain.config.flags.yaml_file import JOINED
from mxtrain.config.program_objects import NO_OBJECTS, ProgramObjects, names_of
from mxtrain.core.errors import UsageError, nearest

TYPE_NAMES = {**typed_text.EXPECTED, "bool": "True or False"}  # others are text
TAKES_OBJECTS = ("train", "val", "model", "loss", "task", "metric", "optimizer", "schedule")


def run_of(flat: Mapping[str, Any]) -> schema.Run:
    """Return the run of these flags, by their names with underscores; UsageError for what is none, or has no range."""
    from mxtrain.config.checks import bounds

    run = dataclasses.replace(schema.from_flat(checked(flat)), explicit=frozenset(flat))
    bounds.check(run)
    return run


def checked(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return these flags, each of the type that it has in a `Run`; UsageError for what is no flag, or none of it."""
    types = {flag.name: flag.annotation for flag in fit_parser.of_run()}
    for name in flat:
        if name not in types:
            raise UsageError(f"{name}: unknown flag{nearest(name, types)}")
    return {name: _value(name, types[name], value) for name, value in flat.items()}


def with_objects(
    run: schema.Run, values: Mapping[str, Any], objects: ProgramObjects = NO_OBJECTS
) -> tuple[schema.Run, ProgramObjects]:
    """Return `run` with these values in the place of its flags of the same names, and `objects` with those among them.

    They are names, or objects, of which the run has the texts; None leaves a flag. Metrics may be several.
    """
    named = names_of(values)
    made = schema.from_flat({**_without_defaults(run), **named})
    made = dataclasses.replace(made, explicit=run.explicit | named.keys())
    return made, objects.replaced_by(values)


def _without_defaults(run: schema.Run) -> dict[str, Any]:
    """Return the flags that are set, or not what the run's task has for those left out: another task has others."""
    kept = run.explicit | schema.changed(run) | {"task"}
    return {name: value for name, value in schema.to_flat(run).items() if name in kept}


def _value(name: str, annotation: str, value: Any) -> Any:
    """Return the flag's value of the type that it has in a `Run`."""
    if annotation == "bool" and isinstance(value, bool):
        return value
    if annotation == "int" and isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    if annotation == "float" and isinstance(value, numbers.Real) and not isinstance(value, bool):
        number = typed_text.finite(value)
        if number is not None:
            return number
    if annotation not in TYPE_NAMES:
        text = _text(name, value)
        if text is not None or (value is None and annotation.startswith("Optional")):
            return text
    expected = TYPE_NAMES.get(annotation, "text")
    hint = ""
    if annotation not in TYPE_NAMES and name in TAKES_OBJECTS:
        word = "net" if name == "model" else name
        hint = f"; objects go to fit(run, {word}=...)"
    raise UsageError(f"{name}: expected {expected}, got {_shown(value)}{hint}")


def _text(name: str, value: Any) -> str | None:
    """Return the text of a flag, as a command line would have it; None where `value` is no text."""
    if isinstance(value, (str, os.PathLike)):
        return str.__str__(os.fspath(value))  # of exactly this type, whatever inherits from it
    if isinstance(value, numbers.Real) and not isinstance(value, bool):  # as in loader_workers=4
        return str(value)
    if isinstance(value, (list, tuple)) and name in JOINED:
        parts = [_text(name, part) for part in value]
        separator = "+" if JOINED[name].endswith("+") else ","
        if parts and all(part and separator not in part for part in parts):
            return separator.join(map(str, parts))
    return None


def _shown(value: Any) -> str:
    is_plain = value is None or isinstance(value, (str, numbers.Number))
    return repr(value) if is_plain else f"a {type(value).__name__}"
