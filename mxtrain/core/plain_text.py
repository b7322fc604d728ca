"""Numbers and lines as people and other programs write them; Python's own functions accept more.

`float` and `int` take `1_2` for 12, and digits of other scripts. `splitlines` also splits at form feeds, U+0085 and
U+2028, which may stand in the name of a file or a class.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Iterable

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_MOST_DIGITS = 18


def parse_number(text: str) -> float | None:
    """Return the number that the text is, apart from spaces around it; NaN and infinity count; None for other text."""
    text = text.strip()
    return float(text) if _NUMBER.fullmatch(text) or _NOT_FINITE.fullmatch(text) else None


def parse_whole_number(text: str) -> int | None:
    """Return the whole number, 0 or more, that the text is; None for other text and for more than 18 digits."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else None


def number(value: float, digits: int) -> str:
    """Return a number in so many digits, and never fewer than stand before its point: times in seconds differ there."""
    return f"{value:.0f}" if 10**digits <= abs(value) < 10**_MOST_DIGITS else f"{value:.{digits}g}"


def split_lines(text: str) -> list[str]:
    """Return the lines of a text, each ended by \\n or \\r\\n; an end after the last one begins no further line."""
    found = [line[:-1] if line.endswith("\r") else line for line in text.split("\n")]
    return found if found[-1] else found[:-1]


def utf8_problem(text: str) -> str | None:
    """Return why a text cannot be written as UTF-8; None if it can.

    Python stands half a letter for each byte of a command line or a file name that is no UTF-8; JSON may hold some too.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"is not UTF-8 text ({text[error.start]!a} at letter {error.start})"
    return None


def printable(text: str) -> str:
    """Return the text as one line of UTF-8: other characters, which file names may hold, are escaped."""
    return "".join(each if each.isprintable() or _is_space(each) else repr(each)[1:-1] for each in text)


def listed(names: Iterable[str]) -> str:
    """Return names side by side, as in `a, "b, c"`: one with a comma or a quote in it stands in quotes, as in CSV."""
    return ", ".join(quoted(name) for name in names)


def quoted(name: str) -> str:
    """Return a name as an item of such a list."""
    is_plain = not any(each in name for each in ',"') and name == name.strip() and name
    return name if is_plain else '"{}"'.format(name.replace('"', '""'))


def _is_space(character: str) -> bool:
    return unicodedata.category(character) == "Zs"  # which Python does not call printable
