"""The optimizer that `kv.set_optimizer` sends, read without running anything of it.

A pickle is a program: even an Unpickler that guards `find_class` calls what it finds, with arguments that the pickle
chooses, and sets attributes on classes. So this reads the small language in which pickle's protocol 0 writes plain
values and objects of known classes, and nothing besides. MXNet uses no other protocol: what a server command carries
ends at its first NUL byte.
"""

from __future__ import annotations

import contextlib
import pickletools
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

LARGEST_BYTES = 4 << 20
LONGEST_LINE = 4000  # bytes of one number or text: the time to read a number grows with the square
VALUES = ("NONE", "INT", "LONG", "FLOAT", "UNICODE")
MAKE = ("copy_reg._reconstructor", "copyreg._reconstructor")
OBJECT = ("__builtin__.object", "builtins.object")
MARK = object()


class Refused(Exception):
    """What a pickle asked for that it may not have."""


class Name(NamedTuple):
    """A class or function that the pickle names. It is text: nothing is looked up for it but a known class."""

    text: str


def loads(body: bytes, classes: Mapping[str, Any]) -> Any:
    """The value in `body`, whose objects are of `classes`, by their dotted names; Refused for anything else."""
    if len(body) > LARGEST_BYTES or any(len(line) > LONGEST_LINE for line in body.split(b"\n")):
        raise Refused(f"{len(body)} bytes are more than an optimizer's pickle has")
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
                _follow(opcode.name, argument, stack, classes)
    except Refused as refused:
        raise Refused(f"{refused}{_requested_names(body)}") from None
    except (ValueError, LookupError, TypeError) as error:
        raise Refused(f"it is no pickle of an optimizer ({error}){_requested_names(body)}") from None
    raise Refused("it has no end")


def _follow(opcode: str, argument: Any, stack: list[Any], classes: Mapping[str, Any]) -> None:
    if opcode in VALUES:
        stack.append(argument)
    elif opcode == "MARK":
        stack.append(MARK)
    elif opcode in ("TUPLE", "LIST", "DICT"):
        items = _down_to_mark(stack)
        # Lists and dicts begin empty here, and are filled one by one.
        stack.append(tuple(items) if opcode == "TUPLE" else _empty(opcode, items))
    elif opcode == "APPEND":
        value = _pop(stack)
        _of_type(list, stack[-1]).append(value)
    elif opcode == "SETITEM":
        value, key = _pop(stack), _pop(stack)
        if not isinstance(key, (str, int)):
            raise Refused(f"a {type(key).__name__} as a key")
        _of_type(dict, stack[-1])[key] = value
    elif opcode == "GLOBAL":
        stack.append(_allowed(argument.replace(" ", "."), classes))
    elif opcode == "REDUCE":
        arguments, function = _pop(stack), _pop(stack)
        stack.append(_made(function, arguments, classes))
    elif opcode == "BUILD":
        state = _of_type(dict, _pop(stack))
        _give(stack[-1], state, classes)
    else:
        raise Refused(f"it is not a plain protocol 0 pickle (opcode {opcode})")


def _allowed(name: str, classes: Mapping[str, Any]) -> Name:
    if name not in (*classes, *MAKE, *OBJECT):
        raise Refused("it names what is not an optimizer")
    return Name(name)


def _made(function: Any, arguments: Any, classes: Mapping[str, Any]) -> Any:
    """A bare object of a known class: the one call that protocol 0 makes for an object."""
    parts = function, *_of_type(tuple, arguments)
    names = [part.text if isinstance(part, Name) else "" for part in parts]
    if len(names) != 4 or names[0] not in MAKE or names[1] not in classes or names[2] not in OBJECT:
        raise Refused("it calls what it may not")
    kind = classes[names[1]]
    return kind.__new__(kind)


def _give(made: Any, state: dict[Any, Any], classes: Mapping[str, Any]) -> None:
    """Give an object its attributes, as its class does; none may stand in for a method."""
    if type(made) not in classes.values():
        raise Refused(f"a state for a {type(made).__name__}")
    for name in state:
        if not isinstance(name, str) or hasattr(type(made), name):
            raise Refused(f"it replaces {type(made).__name__}.{name}")
    # A copy: the pickle can still fill the dict that it made.
    getattr(made, "__setstate__", vars(made).update)(dict(state))


def _pop(stack: list[Any]) -> Any:
    value = stack.pop()
    if value is MARK:
        raise Refused("a mark in the place of a value")
    return value


def _down_to_mark(stack: list[Any]) -> list[Any]:
    items = []
    while stack[-1] is not MARK:
        items.append(stack.pop())
    stack.pop()
    return items[::-1]


def _empty(opcode: str, items: Sequence[Any]) -> Any:
    if items:
        raise Refused(f"it is not a plain protocol 0 pickle (opcode {opcode})")
    return [] if opcode == "LIST" else {}


def _of_type(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise Refused(f"a {type(value).__name__} in the place of a {kind.__name__}")
    return value


def _requested_names(body: bytes) -> str:
    """`; it asks for os.system`: every name that a pickle's opcodes spell, of any protocol."""
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
