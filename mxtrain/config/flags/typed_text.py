"""The value of a flag from its text, by the type of its field in `config/sections/`."""

from __future__ import annotations

import argparse
import math
from typing import Any, Callable

EXPECTED = {"int": "a whole number", "float": "a number", "bool": "true or false"}
SWITCHES = {**dict.fromkeys(("true", "yes", "on"), True), **dict.fromkeys(("false", "no", "off"), False)}
NOTHING = ("null", "~")


def read(annotation: str, text: str) -> Any:
    """Return the value that a text has for a field of this annotation; ArgumentTypeError where it has none."""
    if annotation == "Optional[str]":
        return None if text.strip().lower() in NOTHING else text
    if annotation not in READERS:
        return text
    value = READERS[annotation](text.strip())
    if value is None:
        raise argparse.ArgumentTypeError(f"expected {EXPECTED[annotation]}, got '{text}'")
    return value


def _whole_number(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        number = _of_yaml(text)
        return number if type(number) is int else None


def _number(text: str) -> float | None:
    try:
        return finite(float(text))
    except ValueError:
        found = _of_yaml(text)
        return finite(found) if type(found) in (int, float) else None


def finite(value: Any) -> float | None:
    """Return a number as a flag has it; None where it is infinite or NaN, which no flag means."""
    try:
        number = float(value)
    except OverflowError:  # a whole number beyond all floats
        return None
    return number if math.isfinite(number) else None


def _of_yaml(text: str) -> Any:
    """Return what a text is in a file of flags, where 0x10 and 1:30 are numbers too; None where it is nothing there."""
    import yaml

    loader: Any = yaml.SafeLoader("")
    try:
        node = yaml.ScalarNode(loader.resolve(yaml.ScalarNode, text, (True, False)), text)
        return loader.construct_object(node)
    except (yaml.YAMLError, ValueError):
        return None


READERS: dict[str, Callable[[str], Any]] = {
    "int": _whole_number,
    "float": _number,
    "bool": lambda text: SWITCHES.get(text.lower()),
}
