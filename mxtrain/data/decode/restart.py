"""Cropping of JPEGs with restart markers, without decoding: the part around a box becomes a small JPEG of its own.

Huffman codes can only be read from the start of the scan or from a restart marker on. Where markers come at the same
columns in every row, a part of the picture is a selection of the segments between them: in order, with the markers
renumbered and the new size in the header, they are an ordinary JPEG again. Does not decode (`jpeg.py`).
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple, Union

import numpy as np
import numpy.typing as npt

Data = Union[bytes, bytearray, memoryview]
Ints = npt.NDArray[Any]

# Second bytes of markers; the first is 0xff.
BASELINE, HUFFMAN, RESTART_0, END, SCAN, INTERVAL = 0xC0, 0xC4, 0xD0, 0xD9, 0xDA, 0xDD
FRAMES = {*range(0xC0, 0xD0)} - {HUFFMAN, 0xC8, 0xCC}


class JpegHeader(NamedTuple):
    """The header before the scan. A unit (MCU) is the smallest rectangle that is coded on its own."""

    height: int
    width: int
    unit_height: int
    unit_width: int
    interval: int  # units from one restart marker to the next
    size_at: int  # the offset of height and width
    scan_at: int  # the offset of the coded data


class JpegPart(NamedTuple):
    """A small JPEG, and the position of its first pixel in the whole picture."""

    payload: bytearray
    top: int
    left: int
    height: int
    width: int


def parse_header(payload: Data) -> JpegHeader | None:
    """Return None unless the JPEG can be cropped: baseline, one scan, the same restart columns in every row."""
    interval, frame, size_at, at = 0, None, 0, 2
    while at + 4 <= len(payload) and payload[at] == 0xFF:
        marker, length = payload[at + 1], payload[at + 2] << 8 | payload[at + 3]
        data, at = payload[at + 4 : at + 2 + length], at + 2 + length
        if marker == INTERVAL and len(data) == 2:
            interval = data[0] << 8 | data[1]
        elif marker == BASELINE and frame is None:
            frame, size_at = data, at - len(data) + 1
        elif marker in FRAMES or marker == 0xFF:
            return None
        elif marker == SCAN:
            if frame is None or len(frame) < 6 or data[:1] != frame[5:6] or at >= len(payload):
                return None
            return _header(frame, interval, size_at, at)
    return None


def _header(frame: Data, interval: int, size_at: int, scan_at: int) -> JpegHeader | None:
    """Read the frame marker's data: precision, height, width, and (id, sampling, table) of each component."""
    _, height, width, num_components = struct.unpack_from(">BHHB", frame)
    if len(frame) != 6 + 3 * num_components or num_components not in (1, 3) or not (height and width):
        return None
    # A single component is coded block by block, whatever its sampling says.
    samplings = frame[7::3] if num_components > 1 else b"\x11"
    unit_width, unit_height = 8 * max(s >> 4 for s in samplings), 8 * max(s & 15 for s in samplings)
    if not interval or not unit_width or not unit_height or -(-width // unit_width) % interval:
        return None
    return JpegHeader(height, width, unit_height, unit_width, interval, size_at, scan_at)


def cut(
    payload: Data, header: JpegHeader, top: int, left: int, height: int, width: int, scale: int
) -> JpegPart | None:
    """Return a part that decodes, at 1/`scale`, to the same pixels inside this box as the whole picture.

    None where the scan is not what the header says: decoding the whole will say why.
    """
    segments = _segments(payload, header)
    if segments is None:
        return None
    starts, ends = segments
    segment_width = header.unit_width * header.interval
    # Smoothing chroma looks at the next sample on each side, and is left out in pictures of 2 samples a row or less.
    row_margin, column_margin = header.unit_height // 8 * scale, 3 * header.unit_width // 8 * scale
    rows = _covering(top, height, header.unit_height, row_margin, len(starts))
    columns = _covering(left, width, segment_width, column_margin, starts.shape[1])
    starts, ends = starts[rows, columns], ends[rows, columns]
    part_top, part_left = rows.start * header.unit_height, columns.start * segment_width
    size = (
        min(header.height, rows.stop * header.unit_height) - part_top,
        min(header.width, columns.stop * segment_width) - part_left,
    )
    of_rows = [payload[start : end + 2] for start, end in zip(starts[:, 0].tolist(), ends[:, -1].tolist())]
    coded = bytearray().join([payload[: header.scan_at], *of_rows])
    struct.pack_into(">HH", coded, header.size_at, *size)
    _renumber(coded, header.scan_at + np.cumsum((ends + 2 - starts).ravel()))
    return JpegPart(coded, part_top, part_left, *size)


def _segments(payload: Data, header: JpegHeader) -> tuple[Ints, Ints] | None:
    """Return the offsets where segments start and end, as arrays (rows, columns); a 2-byte marker follows each end."""
    num_rows = -(-header.height // header.unit_height)
    num_columns = -(-header.width // (header.unit_width * header.interval))
    scan = np.frombuffer(payload, np.uint8, offset=header.scan_at)
    escapes = np.flatnonzero(scan[:-1] == 0xFF)
    codes = scan[escapes + 1]
    is_marker = codes != 0
    at, codes = escapes[is_marker], codes[is_marker]
    count = num_rows * num_columns
    if len(codes) < count or codes[count - 1] != END:
        return None
    if not np.array_equal(codes[: count - 1], RESTART_0 + np.arange(count - 1) % 8):
        return None
    ends = at[:count] + header.scan_at
    starts = np.concatenate([[header.scan_at], ends[:-1] + 2])
    return starts.reshape(num_rows, num_columns), ends.reshape(num_rows, num_columns)


def _covering(start: int, length: int, step: int, margin: int, count: int) -> slice:
    """Return which of `count` segments of `step` pixels hold these pixels and `margin` on either side."""
    return slice(max(0, (start - margin) // step), min(count, -(-(start + length + margin) // step)))


def _renumber(coded: bytearray, ends: Ints) -> None:
    """Write RST0 to RST7 in turn into the 2 bytes before each of `ends`, and EOI before the last."""
    markers = np.frombuffer(coded, np.uint8)
    markers[ends - 1] = RESTART_0 + np.arange(len(ends)) % 8
    markers[ends[-1] - 1] = END
