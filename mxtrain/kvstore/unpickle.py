"""Unpickling of the optimizer that `kv.set_optimizer` sends, without running any of it.

Owns a reader of the opcodes by which pickle's protocol 0 writes plain values and objects of known classes, and of
nothing else. A pickle is a program: even an Unpickler that restricts `find_class` calls what it finds, with arguments
that the pickle chooses, and sets attributes on classes. MXNet uses only protocol 0, as the body of a server command
ends at its first NUL byte. Which classes are known is `server.py`'s.
"""

from __future__ import annotations

import contextlib
import pickletools
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

LARGEST_BYTES = 4 << 20
LONGEST_LINE = (
    4000  # bytes of one number or text: the time to parse a number grows with the square of its length
)
VALUES = ("NONE", "INT", "LONG", "FLOAT", "UNICODE")
MAKE = ("copy_reg._reconstructor", "copyreg._reconstructor")
OBJECT = ("__builtin__.object", "builtins.object")
MARK = object()


class RefusedPickle(Exception):
    """A pickle that contains anything but plain values and objects of known classes."""


class Name(NamedTuple):
    """A class or function that the pickle names. It stays text; only a known class is ever looked up."""

    text: str


def loads(body: bytes, classes: Mapping[str, Any]) -> Any:
    """Return the value in `body`, whose objects are of `classes`, given by dotted name.

    RefusedPickle, naming what the pickle asks for, for anything else.
    """
    if len(body) > LARGEST_BYTES or any(len(line) > LONGEST_LINE for line in body.split(b"\n")):
        raise RefusedPickle(f"{len(body)} bytes are more than an optimizer's pickle has")
    stack: list[Any] = []
    memo: dict[Any, Any] = {}
    try:
        for opcode, argument, _ in pickletools.genops(body):
            if opcode.name == "PUT":
                memo[argument] = stack[-1]
            elif opcode.name == "GET":
                stack.append(memo[argument])
            elif opcode.name == "STOP":
                return _pop(stack)
            else:
                _execute(opcode.name, argument, stack, classes)
    except RefusedPickle as refusal:
        raise RefusedPickle(f"{refusal}{_requested_names(body)}") from None
    except (ValueError, LookupError, TypeError) as error:
        raise RefusedPickle(f"it is no pickle of an optimizer ({error}){_requested_names(body)}") from None
    raise RefusedPickle("it has no end")


def _execute(opcode: str, argument: Any, stack: list[Any], classes: Mapping[str, Any]) -> None:
    if opcode in VALUES:
        stack.append(argument)
    elif opcode == "MARK":
        stack.append(MARK)
    elif opcode in ("TUPLE", "LIST", "DICT"):
        items = _pop_to_mark(stack)
        # Protocol 0 makes empty lists and dicts, and adds items one by one.
        stack.append(tuple(items) if opcode == "TUPLE" else _new_container(opcode, items))
    elif opcode == "APPEND":
        value = _pop(stack)
        _of_type(list, stack[-1]).append(value)
    elif opcode == "SETITEM":
        value, key = _pop(stack), _pop(stack)
        if not isinstance(key, (str, int)):
            raise RefusedPickle(f"a {type(key).__name__} as a key")
        _of_type(dict, stack[-1])[key] = value
    elif opcode == "GLOBAL":
        stack.append(_known_name(argument.replace(" ", "."), classes))
    elif opcode == "REDUCE":
        arguments, function = _pop(stack), _pop(stack)
        stack.append(_new_object(function, arguments, classes))
    elif opcode == "BUILD":
        state = _of_type(dict, _pop(stack))
        _set_attributes(stack[-1], state, classes)
    else:
        raise RefusedPickle(f"it is not a plain protocol 0 pickle (opcode {opcode})")


def _known_name(name: str, classes: Mapping[str, Any]) -> Name:
    if name not in (*classes, *MAKE, *OBJECT):
        raise RefusedPickle("it names what is not an optimizer")
    return Name(name)


def _new_object(function: Any, arguments: Any, classes: Mapping[str, Any]) -> Any:
    """Return an object of a known class without attributes: the only call that protocol 0 needs for an object."""
    parts = function, *_of_type(tuple, arguments)
    names = [part.text if isinstance(part, Name) else "" for part in parts]
    if len(names) != 4 or names[0] not in MAKE or names[1] not in classes or names[2] not in OBJECT:
        raise RefusedPickle("it calls what it may not")
    class_ = classes[names[1]]
    return class_.__new__(class_)


def _set_attributes(instance: Any, state: dict[Any, Any], classes: Mapping[str, Any]) -> None:
    """Set an object's attributes as its class does; none may replace a method."""
    if type(instance) not in classes.values():
        raise RefusedPickle(f"a state for a {type(instance).__name__}")
    for name in state:
        if not isinstance(name, str) or hasattr(type(instance), name):
            raise RefusedPickle(f"it replaces {type(instance).__name__}.{name}")
    # A copy, because the pickle can still add to the dict that it made.
    getattr(instance, "__setstate__", vars(instance).update)(dict(state))


def _pop(stack: list[Any]) -> Any:
    value = stack.pop()
    if value is MARK:
        raise RefusedPickle("a mark in the place of a value")
    return value


def _pop_to_mark(stack: list[Any]) -> list[Any]:
    items = []
    while stack[-1] is not MARK:
        items.append(stack.pop())
    stack.pop()
    return items[::-1]


def _new_container(opcode: str, items: Sequence[Any]) -> Any:
    if items:
        raise RefusedPickle(f"it is not a plain protocol 0 pickle (opcode {opcode})")
    return [] if opcode == "LIST" else {}


def _of_type(expected_type: type, value: Any) -> Any:
    if type(value) is not expected_type:
        raise RefusedPickle(f"a {type(value).__name__} in the place of a {expected_type.__name__}")
    return value


def _requested_names(body: bytes) -> str:
    """Return `; it asks for os.system`, with every name in the pickle's opcodes, of any protocol."""
    names = ", ".join(sorted({name for name in _named(body) if name not in (*MAKE, *OBJECT)}))
    return f"; it asks for {names[:200]}" if names else ""


def _named(body: bytes) -> Iterator[str]:
    texts = ["", ""]
    with contextlib.suppress(ValueError):
        for opcode, argument, _ in pickletools.genops(body):
            if opcode.name in ("GLOBAL", "INST"):
                yield str(argument).replace(" ", ".")
            elif opcode.name == "STACK_GLOBAL":
                yield ".".join(texts[-2:])
            elif opcode.name in ("EXT1", "EXT2", "EXT4", "PERSID"):
                yield f"{opcode.name} {argument}"
            elif isinstance(argument, str):
                texts = [texts[-1], argument]
