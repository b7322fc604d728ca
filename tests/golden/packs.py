"""Digests of what packs and checkpoints hold, by MXNet's own readers: no code of mxtrain is part of them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from mxtrain.runtime import mx


def digest(*parts: bytes) -> str:
    """Return a short hash of bytes."""
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def digests(folder: Path) -> dict[str, list[str]]:
    """Return a digest for each record of each .rec in a folder: of its key, labels and payload."""
    return {path.name: _of_records(path) for path in sorted(folder.glob("*.rec"))}


def _of_records(path: Path) -> list[str]:
    reader = mx.recordio.MXIndexedRecordIO(str(path.with_suffix(".idx")), str(path), "r")
    found = []
    for key in reader.keys:
        header, payload = mx.recordio.unpack(reader.read_idx(key))
        found.append(of_record(key, header.label, payload))
    return found


def of_record(key: int, label: Any, payload: Any) -> str:
    """Return the digest of a record."""
    return digest(str(key).encode(), np.asarray(label, "<f4").ravel().tobytes(), bytes(payload))


def digests_of_checkpoints(run: Path) -> dict[str, str]:
    """Return a digest for each file of arrays of each checkpoint of a run."""
    return {
        str(path.relative_to(run)): digest_of_arrays(path)
        for path in sorted(run.glob("checkpoints/*/*.params"))
    }


def digest_of_arrays(path: Path) -> str:
    """Return a digest of a file's arrays, with their names and in their order."""
    return digest(json.dumps({name: of_array(each) for name, each in arrays(path).items()}).encode())


def arrays(path: Path) -> dict[str, Any]:
    """Return the arrays of a file by name; of an empty one MXNet makes a list."""
    found = mx.nd.load(str(path))
    return {name: each.asnumpy() for name, each in found.items()} if found else {}


def of_array(array: Any) -> str:
    """Return the digest of an array: its type, its shape, its numbers."""
    return digest(array.dtype.name.encode(), str(array.shape).encode(), np.ascontiguousarray(array).tobytes())
