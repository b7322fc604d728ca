"""A list of pairs of copies that `check` has found, for `show --copies` to draw and for `check --accept` to let pass.

A line is a pair, its columns separated by tabs: kind of the finding and digest of each payload, which say what is
accepted, wherever it lies by then; and of each picture its .rec, its key and what it was packed from, which say where
it was found. Empty lines and those that begin with # are left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Iterable, NamedTuple

from mxtrain.core import plain_text, regular_files
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.record_writer import Replacement
from tools.im2rec_wrapper.findings import Finding, Pair, pair_of

_FIRST_LINE = "# copies found by im2rec_wrapper check: kind, two digests, twice .rec, key and source"
_NUM_COLUMNS = (3, 9)


class Picture(NamedTuple):
    """One of a pair, where it was found."""

    digest: str
    path: Path
    key: int


class Line(NamedTuple):
    where: str  # in which list, for messages
    pair: Pair
    pictures: tuple[Picture, ...]  # none where the line only says what is accepted


def write(path: Path, findings: Iterable[Finding]) -> int:
    """List all that are pairs of copies; how many there are."""
    pairs = [finding for finding in findings if finding.pair]
    lines = [_FIRST_LINE]
    for found in pairs:
        places = ((str(place.path), str(place.key), place.source or "") for place in found.places)
        columns = (found.kind, *found.digests, *(column for place in places for column in place))
        lines.append("\t".join(map(plain_text.printable, columns)))
    with Replacement(path) as file:
        file.write("".join(f"{line}\n" for line in lines).encode())
    return len(pairs)


def refuse_other_files(flag: str, path: Path) -> None:
    """A file that is no list of copies is not written over."""
    try:
        is_list = regular_files.read(path).startswith(_FIRST_LINE.encode())
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"{flag} {path}: {error.strerror}; give another name") from None
    if not is_list:
        raise UsageError(f"{flag} {path}: is there, and no list of copies; give another name")


def read(path: Path) -> list[Line]:
    try:
        lines = plain_text.split_lines(regular_files.read(path).decode("utf-8"))
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is no list of copies: write one with `check --copies`") from None
    numbered = enumerate(lines, 1)
    return [_parse(line, f"{path}: line {number}") for number, line in numbered if line and line[0] != "#"]


def accepted(paths: Iterable[Path]) -> set[Pair]:
    return {line.pair for path in paths for line in read(path)}


def _parse(line: str, where: str) -> Line:
    columns = line.split("\t")
    if len(columns) not in _NUM_COLUMNS:
        raise DataError(f"{where} is no pair of copies: write the list with `check --copies`")
    kind, *digests = columns[:3]
    pictures = []
    for digest, (path, key, _) in zip(digests, (columns[3:6], columns[6:9])) if columns[3:] else ():
        number = plain_text.parse_whole_number(key)
        if number is None:
            raise DataError(f"{where} has the key {key!r}, which is no number: mend it")
        pictures.append(Picture(digest, Path(path), number))
    return Line(where, pair_of(kind, digests), tuple(pictures))
