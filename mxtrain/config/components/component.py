"""A component, which is a name of a flag, and the language of names that carry numbers.

A component is one entry in the file of its kind beside this one: its name, its numbers with their limits, what it is
for, and where its code is. Flags, checks, messages, completion and the tables of the docs follow from the entries. Owns
parsing `name:key=number,key=number` and the messages that refuse a wrong one.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from typing import Any, Mapping, NamedTuple, TypeVar

from mxtrain.config import program_objects
from mxtrain.config.components import import_path
from mxtrain.core.errors import UsageError, nearest


class Number(NamedTuple):
    """A number that a name takes: an int when its default is; a tuple, written 30/60/80, when its default is one: of
    what that holds, or of floats. Or a text, without a comma or a plus sign, when its default is one."""

    default: Any
    low: float
    high: float


Numbers = Mapping[str, Number]


@dataclasses.dataclass(frozen=True)
class Component:
    """A name that a flag takes. Kinds add what they have to know before the code is imported."""

    name: str
    help: str = ""  # a few words, for a table
    factory: str = ""  # its code, `module:attribute`
    numbers: Numbers = dataclasses.field(default_factory=dict)

    def load(self) -> Any:
        """Import its code and return it: only now, so that `--help` and checks need none of it."""
        return load(self.factory)


def load(factory: str) -> Any:
    """Import and return what `module:attribute` names; the attribute may have dots."""
    module, _, attribute = factory.partition(":")
    return functools.reduce(getattr, attribute.split("."), importlib.import_module(module))


AnyComponent = TypeVar("AnyComponent", bound=Component)


def by_name(*components: AnyComponent) -> dict[str, AnyComponent]:
    """Return the table of a kind."""
    return {component.name: component for component in components}


class Spec(NamedTuple):
    """A name, or `module:callable`, and all its hyper-parameters."""

    name: str
    hyperparameters: dict[str, Any]


def parse(flag: str, text: str, known: Mapping[str, Component]) -> Spec:
    """Parse the value `text` of `flag`, with defaults filled in.

    `known` is the table of a kind; `module:callable` is accepted too, and what stands for an object of a program. These
    take no numbers.
    """
    if program_objects.is_object(text):
        return Spec(text, {})
    name, _, numbers = text.partition(":")
    if name in known:
        return Spec(name, _parse_numbers(f"{flag} {name}", numbers, known[name].numbers))
    # Only our own take numbers, so this is one of them misspelt.
    import_path.check_name(flag, name if "=" in numbers else text, known)
    return Spec(text, {})


def keys_of(text: str) -> set[str]:
    """Return the keys that a description sets itself."""
    return {part.partition("=")[0] for part in text.partition(":")[2].split(",")}


def _parse_numbers(described: str, text: str, known: Mapping[str, Number]) -> dict[str, Any]:
    hyperparameters: dict[str, Any] = {}
    for part in text.split(",") if text else []:
        key, _, value = part.partition("=")
        if key not in known:
            it_has = ", ".join(known) or "none"
            raise UsageError(f"{described}: no number '{key}'{nearest(key, known)} (it has {it_has})")
        if key in hyperparameters:
            raise UsageError(f"{described}: {key} is given twice; give it once")
        hyperparameters[key] = _parse_value(f"{described}:{key}={value}", value, known[key])
    hyperparameters = {key: hyperparameters.get(key, number.default) for key, number in known.items()}
    for key, value in hyperparameters.items():
        largest = key.replace("_min", "_max")
        if value > hyperparameters[largest]:
            raise UsageError(f"{described}: {key}={value:g} is above {largest}={hyperparameters[largest]:g}")
    return hyperparameters


def _parse_value(described: str, text: str, number: Number) -> Any:
    if isinstance(number.default, str):
        return text
    if isinstance(number.default, tuple):
        number_type = type(number.default[0]) if number.default else float
        return tuple(_parse_one(described, part, number_type, number) for part in text.split("/"))
    return _parse_one(described, text, type(number.default), number)


def _parse_one(described: str, text: str, number_type: type, number: Number) -> Any:
    try:
        value = number_type(text)
    except ValueError:
        raise UsageError(
            f"{described}: not {'a whole number' if number_type is int else 'a number'}"
        ) from None
    if not number.low <= value <= number.high:
        raise UsageError(f"{described}: give {number.low:g} to {number.high:g}")
    return value
