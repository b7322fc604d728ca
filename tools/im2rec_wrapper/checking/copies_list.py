"""The file format of lists of copies: `check` writes them, `show --copies` draws them, `check --accept` accepts them.

A line is a pair, its columns separated by tabs. The kind of the finding and the digest of each payload identify the
pair wherever it is by then; .rec, key and source of each picture say where it was found. Empty lines and lines that
begin with # are skipped.
"""

from __future__ import annotations

from pathlib import Path
from typing import Iterable, NamedTuple

from mxtrain.core import plain_text, regular_files
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.records.record_writer import Replacement

from .findings import Finding, Pair, pair_of

_FIRST_LINE = "# copies found by im2rec_wrapper check: kind, two digests, twice .rec, key and source"
_NUM_COLUMNS = (3, 9)


class ListedPicture(NamedTuple):
    """One picture of a pair, and where it was found."""

    digest: str
    path: Path
    key: int


class ListedPair(NamedTuple):
    """One line of a list."""

    where: str  # the list and the line, for messages
    pair: Pair
    pictures: tuple[ListedPicture, ...]  # none where the line has only kind and digests


def write(path: Path, findings: Iterable[Finding]) -> int:
    """Write the list of those findings that are pairs of copies, and return their number."""
    pairs = [finding for finding in findings if finding.pair]
    lines = [_FIRST_LINE]
    for found in pairs:
        locations = ((str(each.path), str(each.key), each.source or "") for each in found.locations)
        columns = (found.fault, *found.digests, *(column for location in locations for column in location))
        lines.append("\t".join(map(plain_text.printable, columns)))
    with Replacement(path) as file:
        file.write("".join(f"{line}\n" for line in lines).encode())
    return len(pairs)


def refuse_other_files(flag: str, path: Path) -> None:
    """Raise UsageError for an existing file that is no list of copies: it must not be overwritten."""
    try:
        is_list = regular_files.read(path).startswith(_FIRST_LINE.encode())
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"{flag} {path}: {error.strerror}; give another name") from None
    if not is_list:
        raise UsageError(f"{flag} {path}: is there, and no list of copies; give another name")


def read(path: Path) -> list[ListedPair]:
    """Read a list; DataError names the first line that is no pair."""
    try:
        lines = plain_text.split_lines(regular_files.read(path).decode("utf-8"))
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is no list of copies: write one with `check --copies`") from None
    numbered = enumerate(lines, 1)
    return [_parse(line, f"{path}: line {number}") for number, line in numbered if line and line[0] != "#"]


def accepted_pairs(paths: Iterable[Path]) -> set[Pair]:
    """Return the pairs in all of these lists."""
    return {listed.pair for path in paths for listed in read(path)}


def _parse(line: str, where: str) -> ListedPair:
    columns = line.split("\t")
    if len(columns) not in _NUM_COLUMNS:
        raise DataError(f"{where} is no pair of copies: write the list with `check --copies`")
    fault, *digests = columns[:3]
    pictures = []
    for digest, (path, key, _) in zip(digests, (columns[3:6], columns[6:9])) if columns[3:] else ():
        number = plain_text.parse_whole_number(key)
        if number is None:
            raise DataError(f"{where} has the key {key!r}, which is no number: mend it")
        pictures.append(ListedPicture(digest, Path(path), number))
    return ListedPair(where, pair_of(fault, digests), tuple(pictures))
