"""Many records at once: their labels and payloads, where they lie whole in one piece of memory.

No Python object is made for a record, as samples of a few numbers come by the million. Whatever is odd about a record,
damage for instance, gives None: `read` finds it again, and says what it is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mxtrain import native
from mxtrain.data.records import recordio
from mxtrain.data.records.recordio import FRAME, HEADER, BadRecord, Floats, Ints

_HEAD = np.dtype(
    [
        *(("magic", "<u4"), ("length", "<u4"), ("num_labels", "<u4"), ("label", "<f4")),
        *(("id", "<u8"), ("checksum", "<u4"), ("tag", "<u4")),
    ]
)


class Payloads(NamedTuple):
    """Some records: each payload is from its start to its end in `data`."""

    data: npt.NDArray[np.uint8]
    starts: Ints
    ends: Ints
    labels: Floats  # (n,), or (n, k) with k labels a record


def read(records: Any, positions: Ints, verify: bool) -> Payloads | None:
    """Return records at once, compared with their checksums if `verify`.

    Args:
        records: a .rec, or several.
        positions: those of the records, in any order.
        verify: whether they are compared with their checksums.

    Returns:
        their payloads; None where one of them is none of plain records of as many labels each.
    """
    try:
        frames = records.frames(positions)
    except BadRecord:
        return None
    lengths = np.fromiter(map(len, frames), np.int64, len(frames))
    if lengths.min(initial=_HEAD.itemsize) < _HEAD.itemsize:
        return None
    memory = bytearray().join(frames)
    data = np.frombuffer(memory, np.uint8)
    starts = np.cumsum(lengths) - lengths
    heads = gathered(data, starts, _HEAD.itemsize).view(_HEAD)[:, 0]
    sizes = heads["length"].astype(np.int64)  # which has the flag of a part too: a large number
    num_labels = heads["num_labels"].astype(np.int64)
    payloads = starts + FRAME.size + HEADER.size + 4 * num_labels
    ends = starts + FRAME.size + sizes
    is_plain = (heads["magic"] == recordio.MAGIC) & (sizes + -sizes % 4 + FRAME.size == lengths)
    if not is_plain.all() or (num_labels != num_labels[:1]).any() or (payloads > ends).any():
        return None
    if verify and records.has_checksums:
        keys = records.keys[positions].view(np.uint64)
        if (heads["tag"] != recordio.CHECKSUM_TAG).any() or (heads["id"] != keys).any():
            return None
        if not _are_whole(memory, data, starts, ends, lengths, heads["checksum"]):
            return None
    labels = heads["label"].copy()
    if num_labels[:1].any():
        labels = gathered(data, payloads - 4 * num_labels, 4 * int(num_labels[0])).view("<f4")
    return Payloads(data, payloads, ends, labels)


def gathered(data: npt.NDArray[np.uint8], starts: Ints, width: int) -> npt.NDArray[np.uint8]:
    """Return as many bytes from each start on, (n, width)."""
    steps = np.diff(starts)
    is_even = len(steps) > 0 and (steps == steps[0]).all()
    if is_even and 0 <= starts[0] <= starts[-1] <= len(data) - width:
        # Records of one length need no index for each byte.
        rows = np.lib.stride_tricks.as_strided(data[starts[0] :], (len(starts), width), (int(steps[0]), 1))
        return np.ascontiguousarray(rows)
    found: npt.NDArray[np.uint8] = np.ascontiguousarray(data[starts[:, None] + np.arange(width)])
    return found


def _are_whole(
    memory: bytearray,
    data: npt.NDArray[np.uint8],
    starts: Ints,
    ends: Ints,
    lengths: Ints,
    checksums: npt.NDArray[np.uint32],
) -> bool:
    """Return whether all bytes are those that were written; the place of each checksum becomes zeros."""
    place_of_checksum = FRAME.size + 16
    data[starts[:, None] + (place_of_checksum + np.arange(4))] = 0
    view, crc32 = memoryview(memory), native.crc32
    bounds = zip((starts + FRAME.size).tolist(), ends.tolist())
    if [crc32(view[start:end]) for start, end in bounds] != checksums.tolist():
        return False
    num_padding = starts + lengths - ends
    return not any(data[ends[num_padding > place] + place].any() for place in range(3))
