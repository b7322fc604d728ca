"""Numbers and lines as people and other programs write them, where Python has ideas of its own.

Its `float` and `int` take more for a number: `1_2` is 12 to them, and so are digits of other scripts. Its `splitlines`
cuts at more than line breaks: at form feeds, at U+0085 and U+2028, which may stand in the name of a file or a class.
"""

from __future__ import annotations

import re
import unicodedata

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NO_NUMBER = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)  # how programs write what is none
_MOST_DIGITS = 18


def number(text: str) -> float | None:
    """The number that the text is, spaces around it aside; not finite where it says so; None for any other text."""
    text = text.strip()
    return float(text) if _NUMBER.fullmatch(text) or _NO_NUMBER.fullmatch(text) else None


def lines(text: str) -> list[str]:
    """The lines of a text, each ended by \\n or \\r\\n; an end behind the last begins no further one."""
    found = [line[:-1] if line.endswith("\r") else line for line in text.split("\n")]
    return found if found[-1] else found[:-1]


def printable(text: str) -> str:
    """The text on one line of UTF-8, whatever a file system allows in a name; spaces of any script stay as they are."""
    return "".join(each if each.isprintable() or _is_space(each) else repr(each)[1:-1] for each in text)


def _is_space(character: str) -> bool:
    return unicodedata.category(character) == "Zs"  # which Python does not call printable


def whole(text: str) -> int | None:
    """The whole number from 0 that the text is; None for any other text, and for more digits than a file holds."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else None
