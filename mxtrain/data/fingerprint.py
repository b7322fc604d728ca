"""What a data set is known by: the same wherever it lies, whatever its files are called and however they are cut.

Owns which properties are compared. A checkpoint keeps them of its run's data, and the workers of a cluster hold theirs
against each other's. Lengths, keys and labels are those of all records; of what is in them a sample has to do, so that
a set of a million takes moments.
"""

from __future__ import annotations

import hashlib
from typing import Any, Mapping

import numpy as np

SAMPLED = 1024
# The name of each property in a fingerprint, and how a message tells that it differs.
PROPERTIES = {
    "labels": "other labels",
    "keys": "other keys",
    "lengths": "records of other lengths",
    "contents": "records of other content",
}


def of(records: Any) -> dict[str, str]:
    """The fingerprint of records, or of what else a run reads: a user's Dataset has labels, a DataLoader nothing."""
    found = {"labels": _digest(records.labels())}
    if getattr(records, "files", None):
        positions = np.unique(np.linspace(0, len(records) - 1, SAMPLED).astype(np.int64)).tolist()
        contents = np.array([records.checksum(position) for position in positions], np.uint32)
        found.update(keys=_digest(records.keys), lengths=_digest(records.lengths), contents=_digest(contents))
    return found


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """In what two sets differ, as far as both are known; empty for one and the same."""
    return [
        words
        for name, words in PROPERTIES.items()
        if name in before and name in now and before[name] != now[name]
    ]


def short(records: Any, fingerprint: Mapping[str, str]) -> str:
    """Number, class names and fingerprint in a few letters, equal for equal sets."""
    digest = hashlib.sha256(repr((records.class_names, sorted(fingerprint.items()))).encode())
    return f"{len(records)} samples, {digest.hexdigest()[:12]}"


def _digest(array: Any) -> str:
    ordered = np.ascontiguousarray(array)
    return hashlib.sha256(ordered.astype(ordered.dtype.newbyteorder("<")).tobytes()).hexdigest()[:16]
