"""Protocol buffers as text, as Caffe's .prototxt files are: read into fields with the lines they stand in.

Owns the grammar alone: nested messages, repeated fields and lists, numbers, strings, words and comments. What fields
mean is `caffe_config.py`'s.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Iterator, List, NamedTuple, NoReturn, Union

from mxtrain.core import regular_files
from mxtrain.core.errors import DataError

LARGEST = 16 << 20  # bytes; the largest nets have 1 MB
DEEPEST = 64
TOKEN = re.compile(
    r"""(?P<blank>[\s,;]+|\#[^\n]*)|(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
    r"""|(?P<number>[-+]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[fF]?)(?![\w.]))"""
    r"""|(?P<word>-?[A-Za-z_][\w.]*)|(?P<mark>[{}<>:\[\]])"""
)


class Word(str):
    """A word without quotes: the name of an enumeration's value, or `true` and `false`."""


Value = Union[str, Word, int, float, "Message"]


class Field(NamedTuple):
    """A field of a message, with its line in the file."""

    name: str
    value: Value
    line: int


class Message(List[Field]):
    """The fields of a message, in their order; a name may come several times."""

    def all(self, name: str) -> list[Field]:
        """Return the fields of this name."""
        return [field for field in self if field.name == name]

    def last(self, name: str) -> Field | None:
        """Return the field of this name; of several the last, as protocol buffers have it."""
        return next(iter(self.all(name)[::-1]), None)

    def messages(self, name: str) -> list[Message]:
        """Return the messages among the fields of this name."""
        return [field.value for field in self.all(name) if isinstance(field.value, Message)]


class _Token(NamedTuple):
    token_type: str
    text: str
    line: int


def read(path: Path) -> Message:
    """Return the message in a file; DataError names the line that is not understood."""
    try:
        content = regular_files.read(path)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from None
    if len(content) > LARGEST:
        raise DataError(f"{path}: has {len(content)} bytes; a .prototxt is text of at most {LARGEST}")
    try:
        return _Reader(path, content.decode("utf-8-sig")).message()
    except UnicodeDecodeError:
        raise DataError(f"{path}: is not text; give the .prototxt, not the .caffemodel") from None


class _Reader:
    """The reading of one file, token by token."""

    def __init__(self, path: Path, text: str):
        self._path = path
        self._tokens = self._split(text)
        self._next = next(self._tokens, None)
        self._line = 1

    def message(self, end: str = "", depth: int = 0) -> Message:
        """Return the fields up to the mark `end`, or to the end of the file."""
        if depth > DEEPEST:
            self._refuse(f"messages are nested more than {DEEPEST} deep")
        found = Message()
        while self._next is not None and self._next.text != end:
            name = self._take("word", "the name of a field")
            has_colon = self._is_at(":")
            if has_colon:
                self._take("mark", ":")
            for value in self._values(has_colon, depth):
                found.append(Field(name.text, value, name.line))
        if end:
            self._take("mark", end)
        return found

    def _values(self, has_colon: bool, depth: int) -> list[Value]:
        """Return the value of a field; several where it is a list."""
        if not self._is_at("["):
            return [self._value(has_colon, depth)]
        self._take("mark", "[")
        values: list[Value] = []
        while not self._is_at("]"):
            values.append(self._value(has_colon, depth))
        self._take("mark", "]")
        return values

    def _value(self, has_colon: bool, depth: int) -> Value:
        for begin, end in ("{}", "<>"):
            if self._is_at(begin):
                self._take("mark", begin)
                return self.message(end, depth + 1)
        token = self._next
        if token is None or token.token_type == "mark" or not has_colon:
            self._refuse("a value is missing")
        self._take(token.token_type, "a value")
        if token.token_type == "text":
            parts = [token.text]
            while self._next is not None and self._next.token_type == "text":  # strings side by side are one
                parts.append(self._take("text", "a text").text)
            return "".join(re.sub(r"\\(.)", r"\1", part[1:-1]) for part in parts)
        return _number(token.text) if token.token_type == "number" else Word(token.text)

    def _is_at(self, text: str) -> bool:
        return self._next is not None and self._next == ("mark", text, self._next.line)

    def _take(self, token_type: str, expected: str) -> _Token:
        token = self._next
        if token is None:
            self._refuse(f"the file ends where {expected} should be")
        self._line = token.line
        if token.token_type != token_type or (token_type == "mark" and token.text != expected):
            self._refuse(f"'{token.text[:40]}' stands where {expected} should be")
        self._next = next(self._tokens, None)
        return token

    def _split(self, text: str) -> Iterator[_Token]:
        place, line = 0, 1
        while place < len(text):
            found = TOKEN.match(text, place)
            if found is None:
                self._line = line
                self._refuse(f"'{text[place : place + 20].splitlines()[0]}' is not understood")
            token_type = str(found.lastgroup)
            if token_type != "blank":
                yield _Token(token_type, found[0], line)
            place, line = found.end(), line + found[0].count("\n")

    def _refuse(self, reason: str) -> NoReturn:
        raise DataError(f"{self._path}:{self._line}: {reason}; is it a .prototxt of Caffe's?")


def _number(text: str) -> int | float:
    if text.lower().lstrip("+-").startswith("0x"):
        return int(text, 16)
    plain = text.rstrip("fF")
    return int(plain) if re.fullmatch(r"[-+]?\d+", plain) else float(plain)
