"""Hashes of 64 bits, of ids and of texts: the same on every machine, and in every version of mxtrain.

Owns how bits are mixed (splitmix64: no two numbers become one) and which id a text has. Two of n texts have one id with
odds of n**2 / 2**65: 1 in 37 million for a million of them, 1 in 3,700 for a hundred million. They are no secret: who
wants two texts with one id finds them.
"""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from mxtrain import native

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
WORD = 8  # bytes of a text that are mixed in at once


def mixed(numbers: Any) -> Any:
    """Return each uint64 mixed so that all its bits depend on all of its bits."""
    with np.errstate(over="ignore"):
        numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def hashes_of(ids: Any) -> Any:
    """Return the uint64 hash of each int64 id, by which rows are placed."""
    return mixed(np.ascontiguousarray(ids, np.int64).view(np.uint64))


def ids_of(texts: Sequence[str]) -> Any:
    """Return the int64 id of each text."""
    encoded = [text.encode() for text in texts]
    lengths = np.array([len(each) for each in encoded], np.int64)
    ends = np.cumsum(lengths)
    return ids_of_parts(b"".join(encoded), ends - lengths, ends)


def ids_of_parts(data: Any, starts: Any, ends: Any) -> Any:
    """Return the int64 id of the text in UTF-8 from each start to its end, positions in the bytes of `data`."""
    starts, ends = (np.ascontiguousarray(each, np.int64) for each in (starts, ends))
    if native.hash_texts is not None:
        ids = np.empty(len(starts), np.int64)
        native.hash_texts(data, starts, ends, ids)
        return ids
    content = np.frombuffer(data, np.uint8)
    if len(starts) != len(ends) or (starts < 0).any() or (starts > ends).any() or (ends > len(content)).any():
        raise ValueError("texts that are not inside the data")
    with np.errstate(over="ignore"):
        states = mixed((ends - starts).astype(np.uint64) + GOLDEN)
    going_on = np.arange(len(starts))
    for start in range(0, int((ends - starts).max(initial=0)), WORD):
        going_on = going_on[ends[going_on] - starts[going_on] > start]
        places = (starts[going_on] + start)[:, None] + np.arange(WORD)
        is_inside = places < ends[going_on][:, None]
        words = (
            np.where(is_inside, content[np.where(is_inside, places, 0)], np.uint8(0)).view("<u8").reshape(-1)
        )
        states[going_on] = mixed(states[going_on] ^ words)
    return states.view(np.int64)
