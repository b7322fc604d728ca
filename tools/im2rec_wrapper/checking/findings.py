"""The findings of `check`: all kinds of them, and which of them mean that something is wrong.

Wrong is what makes a run fail or its result false: damage, labels that mean nothing, validation pictures that were
trained on. All other findings are notes: their owner may want it so.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, Sequence, Tuple

Pair = Tuple[str, ...]  # the kind of a finding and two digests

WRONG = {
    "unreadable": "the file is missing, or no .rec",
    "structure": "bytes that belong to no record, a record that is cut off or malformed, or a key used twice",
    "checksum": "a record whose bytes are not those that were written",
    "index": "an .idx that is damaged, incomplete, stale or another file's",
    "classes": "a class list that is damaged, or counts other images than there are",
    "label": "a label that is no number, none of the classes, or of another shape than the first",
    "box": "a box that is empty, swapped, in pixels, outside its picture, or of no class",
    "mask": "a mask of another size than its picture, of classes that there are not, undecodable, or missing",
    "undecodable": "a payload that is no picture, or a damaged one",
    "tokens": "a .tokens.json that makes no sense or names another tokenizer, or token ids that it does not allow",
    "arrays": "an .arrays.json that makes no sense, or a record whose arrays are others, or not finite",
    "leak": "the same payload in two sets",
    "near-leak": "nearly the same picture in two sets",
}
NOTES = {
    "no-index": "there is no .idx",
    "duplicate": "the same payload twice in one set",
    "near-duplicate": "nearly the same picture twice in one set",
    "sources": "a .sources.tsv that is damaged or belongs to another pack: no sources are named",
    "empty": "a document without text",
    "empty-mask": "no pixel of a mask counts",
    "odd-box": "a box that reaches outside its picture, or is there twice",
    "imbalance": "a class has more than ten times as many images as another, or one has none",
}


class RecordLocation(NamedTuple):
    """The position of a record; `number` counts from 0 in the order of the file."""

    path: Path
    number: int
    key: int
    byte: int
    source: str | None = None  # its name in the source it was packed from, if known

    def __str__(self) -> str:
        source = f", from {self.source}" if self.source else ""
        return f"{self.path}: record {self.number} (key {self.key}, byte {self.byte}{source})"

    def as_json(self) -> dict[str, Any]:
        known = {name: value for name, value in self._asdict().items() if value is not None}
        return {**known, "path": str(self.path)}


class Finding(NamedTuple):
    """One finding. `text` is a whole line; `locations` are its records, none where it is about the file.

    Where it is about two copies, `digests` are those of their payloads.
    """

    fault: str
    path: Path
    text: str
    locations: tuple[RecordLocation, ...] = ()
    digests: tuple[str, ...] = ()

    @property
    def pair(self) -> Pair | None:
        """The identity of a pair of copies; None for other findings."""
        return pair_of(self.fault, self.digests) if self.digests else None

    @property
    def is_wrong(self) -> bool:
        """True if something is wrong; else the finding is a note."""
        return self.fault in WRONG

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.fault,
            "wrong": self.is_wrong,
            "path": str(self.path),
            "text": self.text,
            "records": [location.as_json() for location in self.locations],
            **({"digests": list(self.digests)} if self.digests else {}),
        }


def of_file(fault: str, path: Path, text: str) -> Finding:
    """Return a finding about a file."""
    return Finding(fault, path, f"{path}: {text}")


def of_record(fault: str, location: RecordLocation, text: str) -> Finding:
    """Return a finding about a record."""
    return Finding(fault, location.path, f"{location}: {text}", (location,))


def of_pair(
    fault: str, first: RecordLocation, second: RecordLocation, text: str, digests: tuple[str, str]
) -> Finding:
    """Return a finding about two copies, of which `second` is the later one."""
    return Finding(fault, second.path, f"{second}: {text} {first}", (first, second), digests)


def pair_of(fault: str, digests: Sequence[str]) -> Pair:
    """Return the identity of a pair of copies, the same in either order."""
    return (fault, *sorted(digests))
