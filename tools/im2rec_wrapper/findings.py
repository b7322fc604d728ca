"""What `check` can say about files: every kind of finding, and whether it means that something is wrong.

Wrong is what makes a run fail or its result false: damage, labels that mean nothing, validation pictures that were
trained on. Told is what may be as its owner wants it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

WRONG = {
    "unreadable": "the file is missing, or no .rec",
    "structure": "bytes that belong to no record, a record that is cut off or malformed, or a key used twice",
    "checksum": "a record whose bytes are not those that were written",
    "index": "an .idx that is damaged, incomplete, stale or another file's",
    "classes": "a class list that is damaged, or counts other images than there are",
    "label": "a label that is no number, none of the classes, or of another shape than the first",
    "undecodable": "a payload that is no picture, or a damaged one",
    "tokens": "a .tokens.json that makes no sense, or token ids that it does not allow",
    "leak": "the same payload in two sets",
    "near-leak": "nearly the same picture in two sets",
}
TOLD = {
    "no-index": "there is no .idx",
    "duplicate": "the same payload twice in one set",
    "near-duplicate": "nearly the same picture twice in one set",
    "imbalance": "a class has more than ten times as many images as another, or one has none",
}


class Place(NamedTuple):
    """A record: `number` counts from 0 in the order of the file."""

    path: Path
    number: int
    key: int
    byte: int

    def __str__(self) -> str:
        return f"{self.path}: record {self.number} (key {self.key}, byte {self.byte})"


class Finding(NamedTuple):
    """`text` says all of it on one line; `places` are the records it is about, none when it is the file."""

    kind: str
    path: Path
    text: str
    places: tuple[Place, ...] = ()

    @property
    def is_wrong(self) -> bool:
        return self.kind in WRONG

    def as_json(self) -> dict[str, Any]:
        records = [{**place._asdict(), "path": str(place.path)} for place in self.places]
        wrong = self.is_wrong
        return {
            "kind": self.kind,
            "wrong": wrong,
            "path": str(self.path),
            "text": self.text,
            "records": records,
        }


def of_file(kind: str, path: Path, text: str) -> Finding:
    return Finding(kind, path, f"{path}: {text}")


def of_record(kind: str, place: Place, text: str) -> Finding:
    return Finding(kind, place.path, f"{place}: {text}", (place,))


def of_pair(kind: str, first: Place, second: Place, text: str) -> Finding:
    return Finding(kind, second.path, f"{second}: {text} {first}", (first, second))
