"""Flags as most commands give them, read without jsonargparse, which takes a tenth of a second to load and set up.

Owns only what can mean one thing: anything else, and all that is wrong, is left to the parser in `parsing.py`.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Mapping, Sequence

WORD = re.compile(r"[A-Za-z/._][A-Za-z0-9/.:,+=@%_-]*")  # YAML's numbers, dates and lists begin otherwise
OTHERS = ("null", "true", "false")  # to YAML
WHOLE = re.compile(r"0|[1-9][0-9]{0,17}")
SIZE = re.compile(r"[1-9][0-9]{0,8}x[1-9][0-9]{0,8}")
NUMBER = re.compile(r"(0|[1-9][0-9]{0,8})(\.[0-9]+)?(e-?[1-9][0-9]?)?")


def read(arguments: Sequence[str], types: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the values of flags by name; None if anything is not plain. `types` are the fields' annotations."""
    values: dict[str, Any] = {}
    remaining = list(arguments)
    while remaining:
        flag, joined, text = remaining.pop(0).partition("=")
        name = flag[2:].replace("-", "_")
        if name not in types or flag != "--" + name.replace("_", "-"):
            return None
        if types[name] == "bool":
            if joined or (remaining and not remaining[0].startswith("--")):
                return None
            values[name] = True
            continue
        if not joined:
            if not remaining:
                return None
            text = remaining.pop(0)
        value = READERS[types[name]](text)
        if value is None:
            return None
        values[name] = value
    return values


def _word(text: str) -> str | None:
    return text if WORD.fullmatch(text) and text.lower() not in OTHERS else None


READERS: dict[str, Callable[[str], Any]] = {
    "str": _word,
    "Optional[str]": _word,
    "Union[int, str]": lambda text: (
        int(text) if WHOLE.fullmatch(text) else text if SIZE.fullmatch(text) else None
    ),
    "int": lambda text: int(text) if WHOLE.fullmatch(text) else None,
    "float": lambda text: float(text) if NUMBER.fullmatch(text) else None,
}
