"""The fingerprint of a data set: the same wherever it lies, whatever its files are called and however it is sharded.

Owns the properties that are compared. A checkpoint keeps those of its run's data, and the workers of a cluster compare
theirs at the rendezvous. Labels, keys and lengths are those of all records; contents are those of a sample of them, so
that a million records take moments.
"""

from __future__ import annotations

import hashlib
from typing import Any, Mapping

import numpy as np

from mxtrain.data.arrays.array_sets import ArrayRecords
from mxtrain.data.interfaces import Dataset
from mxtrain.data.records.record_file import RecordFile
from mxtrain.data.records.record_sets import RecordSet
from mxtrain.data.text.windows import Windows
from mxtrain.data.user.streams import Stream

SAMPLED = 1024
# From each property's name in a fingerprint to a message's words for a difference in it.
PROPERTIES = {
    "labels": "other labels",
    "keys": "other keys",
    "lengths": "records of other lengths",
    "contents": "records of other content",
}


def fingerprint_of(dataset: Dataset) -> dict[str, str]:
    """Return a digest of each property that is known: all of .rec files, labels and contents of tables, else labels.

    Of a stream it is its beginning; what another one means is `data/user/streams.py`'s to say.
    """
    if isinstance(dataset, Stream):
        return {"beginning": dataset.beginning}
    source: Any = dataset
    if getattr(source, "is_source", False):
        return {"labels": _digest(source.flat_labels()), "contents": _contents(source)}
    if isinstance(dataset, Windows):
        return fingerprint_of(dataset.documents)
    files = dataset if isinstance(dataset, (RecordFile, RecordSet)) else None
    found = {"labels": _digest(files.flat_labels() if files is not None else dataset.labels())}
    if files is not None:
        found.update(keys=_digest(files.keys), lengths=_digest(files.lengths), contents=_contents(files))
    own = getattr(dataset, "positives", dataset)  # of rows with negatives, those that are not drawn
    if isinstance(own, ArrayRecords):
        found["contents"] = _contents(own)
    return found


def _contents(dataset: Any) -> str:
    positions = np.unique(np.linspace(0, len(dataset) - 1, SAMPLED).astype(np.int64)).tolist()
    return _digest(np.array([dataset.checksum(position) for position in positions], np.uint32))


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return a few words for each property in which two fingerprints differ, as far as both know it."""
    return [
        words
        for name, words in PROPERTIES.items()
        if name in before and name in now and before[name] != now[name]
    ]


def short(dataset: Dataset, fingerprint: Mapping[str, str]) -> str:
    """Return a short text that is equal for equal data sets: the number of samples, and a digest of all else."""
    digest = hashlib.sha256(repr((dataset.class_names, sorted(fingerprint.items()))).encode())
    return f"{len(dataset)} samples, {digest.hexdigest()[:12]}"


def _digest(array: Any) -> str:
    ordered = np.ascontiguousarray(array)
    return hashlib.sha256(ordered.astype(ordered.dtype.newbyteorder("<")).tobytes()).hexdigest()[:16]
