"""Objects of a Python program in the place of names: a net, a loss or a data set that `fit(...)` was given.

Such an object travels in its `Run` as a `Given`: text that carries the object it stands for, so that whoever looks the
name up gets the object. In files, and for processes of their own, only the text is left, and whoever looks that up is
told to give the object again. Functions and classes that can be imported stay what they are: `module:name`.
"""

from __future__ import annotations

import sys
from typing import Any, Sequence

from mxtrain.core.errors import UsageError

BEGIN = "<object "


class ObjectName(str):
    """The text that stands for an object, with the object."""

    value: Any

    @classmethod
    def of(cls, value: Any) -> ObjectName:
        """Return the text for an object."""
        type_or_function = value if _has_name(value) else type(value)
        name = f"{type_or_function.__module__}.{type_or_function.__qualname__}".replace("builtins.", "")
        made = cls(f"{BEGIN}{'' if type_or_function is value else 'of type '}{name}>")
        made.value = value
        return made

    def __deepcopy__(self, memo: Any) -> ObjectName:
        return self

    def __reduce__(self) -> Any:
        return str, (str(self),)


class Joined(str):
    """Several names joined by commas, some of which may stand for objects."""

    parts: list[str]

    @classmethod
    def of(cls, parts: Sequence[str]) -> Joined:
        """Return the text for these names."""
        made = cls(",".join(parts))
        made.parts = list(parts)
        return made

    def __deepcopy__(self, memo: Any) -> Joined:
        return self

    def __reduce__(self) -> Any:
        return str, (str(self),)


def split_names(text: str) -> list[str]:
    """Return the names that a text joins by commas."""
    if isinstance(text, Joined):
        return text.parts
    return [text] if isinstance(text, ObjectName) else [part.strip() for part in text.split(",")]


def name_of(value: Any) -> str:
    """Return `module:name` for a function or class that can be imported again by it, the text of any other object.

    Text is a name already.
    """
    if isinstance(value, str):
        return value
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    if _has_name(value) and module and module != "__main__":
        named: Any = sys.modules.get(module)
        for part in name.split("."):
            named = getattr(named, part, None)
        if named is value:
            return f"{module}:{name}"
    return ObjectName.of(value)


def is_object(text: str) -> bool:
    """Return whether `text` stands for an object, be it at hand or not."""
    return text.startswith(BEGIN)


def require(flag: str, text: str) -> Any:
    """Return the object that `text`, the value of `flag`, stands for; UsageError where it is not at hand."""
    if not isinstance(text, ObjectName):
        word = flag.lstrip("-").replace("-", "_")
        word = {"model": "net"}.get(word, word)
        raise UsageError(
            f"{flag} {text}: was an object of a Python program, which no file keeps; give it again, as {word}=..., to "
            "the function from Python"
        )
    return text.value


def _has_name(value: Any) -> bool:
    return isinstance(value, type) or type(value).__name__ in ("function", "builtin_function_or_method")
