"""Objects of a Python program in the place of names: a net, a loss or a data set that `fit(...)` was given.

A `Run` is plain data: in it, in files and in messages stands the text of an object, `<object of type module.Class>`.
The object itself travels beside it, in `ProgramObjects`; whoever looks a name up takes both. Functions and classes that
can be imported need no such text: they have names, `module:name`.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from types import MappingProxyType
from typing import Any, Mapping, Tuple

from mxtrain.core.errors import UsageError

BEGIN = "<object "
# Flags of other commands that stand for a data set of the run's.
OF_RUN = {"--calibrate": "--train", "--mistakes": "--val"}
Place = Tuple[str, int]  # a flag, and which of the names that its text joins


@dataclasses.dataclass(frozen=True, eq=False)
class ProgramObjects:
    """Objects by the places of their texts in a run: a flag, and a part of it, as --metric joins several names.

    They belong to their process: a pickled copy, as a loader's process gets one of a task, is empty.
    """

    by_place: Mapping[Place, object] = dataclasses.field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def of(cls, values: Mapping[str, object]) -> ProgramObjects:
        """Return the objects among the values of flags, by the flags' names; others are names, or None."""
        found = {
            (f"--{name}", number): part
            for name, value in values.items()
            for number, part in enumerate(() if value is None else _names_and_objects(name, value))
            if not isinstance(part, str) and is_object(name_of(part))
        }
        return cls(MappingProxyType(found))

    def replaced_by(self, values: Mapping[str, object]) -> ProgramObjects:
        """Return these with the objects among `values` for flags that have a value there."""
        flags = {f"--{name}" for name, value in values.items() if value is not None}
        others = {place: each for place, each in self.by_place.items() if place[0] not in flags}
        return ProgramObjects(MappingProxyType({**others, **ProgramObjects.of(values).by_place}))

    def get(self, flag: str, text: str, part: int = 0) -> Any:
        """Return the object that `text`, a name in the value of `flag`, stands for; None where it is not at hand."""
        found = self.by_place.get((OF_RUN.get(flag, flag), part))
        return found if found is not None and _text_of(found) == text else None

    def require(self, flag: str, text: str, part: int = 0) -> Any:
        """Return the object that `text` stands for, as `get` does; UsageError where it is not at hand."""
        found = self.get(flag, text, part)
        if found is None:
            word = flag.lstrip("-").replace("-", "_")
            word = {"model": "net"}.get(word, word)
            raise UsageError(
                f"{flag} {text}: was an object of a Python program, which no file keeps; give it again, as {word}=..., "
                "to the function from Python"
            )
        return found

    def __copy__(self) -> ProgramObjects:
        return self

    def __deepcopy__(self, memo: object) -> ProgramObjects:
        return self

    def __reduce__(self) -> tuple[type[ProgramObjects], tuple[()]]:
        return ProgramObjects, ()


NO_OBJECTS = ProgramObjects()


def names_of(values: Mapping[str, object]) -> dict[str, str]:
    """Return the texts of these values of flags, by the flags' names; those that are None are left out."""
    return {
        name: ",".join(map(name_of, _names_and_objects(name, value)))
        for name, value in values.items()
        if value is not None
    }


def name_of(value: object) -> str:
    """Return `module:name` for a function or class that can be imported again by it, the text of any other object.

    Text is a name already.
    """
    if isinstance(value, str):
        return str.__str__(value)
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    if _has_name(value) and module and module != "__main__":
        named: Any = sys.modules.get(module)
        for part in name.split("."):
            named = getattr(named, part, None)
        if named is value:
            return f"{module}:{name}"
    return _text_of(value)


def is_object(text: str) -> bool:
    """Return whether `text` stands for an object, be it at hand or not."""
    return text.startswith(BEGIN)


def split_names(text: str) -> list[str]:
    """Return the names that a text joins by commas, each with its numbers, as in ndcg:k=5,by=user."""
    names: list[str] = []
    for part in map(str.strip, text.split(",")):
        if names and ":" in names[-1] and re.match(r"\w+=", part):
            names[-1] += f",{part}"
        else:
            names.append(part)
    return names


def _names_and_objects(name: str, value: object) -> list[Any]:
    """Return the names and objects that are the value of a flag; those of metrics are several."""
    if name != "metric":
        return [value]
    several = value if isinstance(value, (list, tuple)) else [value]
    return [part for each in several for part in (split_names(each) if isinstance(each, str) else [each])]


def _text_of(value: object) -> str:
    type_or_function: Any = value if _has_name(value) else type(value)
    name = f"{type_or_function.__module__}.{type_or_function.__qualname__}".replace("builtins.", "")
    of_type = "" if type_or_function is value else "of type "
    return f"{BEGIN}{of_type}{name.replace(',', ' ')}>"  # a comma would part it


def _has_name(value: object) -> bool:
    return isinstance(value, type) or type(value).__name__ in ("function", "builtin_function_or_method")
