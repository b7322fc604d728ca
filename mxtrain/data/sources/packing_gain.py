"""The part of loading that a pack would save: opening and reading each item by itself, measured on some of them."""

from __future__ import annotations

import time

import numpy as np

from mxtrain.core.errors import Stop
from mxtrain.data.decode import decoding
from mxtrain.data.masks import mask_format
from mxtrain.data.sources.source_records import SourceRecords

MOST_READ = 48


def in_words(records: SourceRecords) -> str:
    """Return a line about a source whose items are learnt where they lie; without figures where none can be read.

    Items are read twice, and the second time counts: a cold disk would be measured instead of the reading.
    """
    line = f"{records.path}: read as it is; with --pack FOLDER it is packed first"
    shares = _shares(records)
    if shares is None:
        return line
    read, decoded = shares
    return f"{line}, which saves up to {read / (read + decoded):.0%} of the CPU time that loading a picture takes"


def _shares(records: SourceRecords) -> tuple[float, float] | None:
    """Return the seconds of reading and of decoding some items."""
    number = min(len(records), MOST_READ)
    positions = np.unique(np.arange(number) * len(records) // number).tolist()
    seconds = [0.0, 0.0]
    try:
        for is_counted in (False, True):
            for position in positions:
                begun = time.thread_time()
                payload = mask_format.picture_of(records.read(position).payload)
                read = time.thread_time()
                if is_counted:
                    decoding.decode(payload)
                    seconds[0] += read - begun
                    seconds[1] += time.thread_time() - read
    except (Stop, ValueError):
        return None
    return (seconds[0], seconds[1]) if all(seconds) else None
