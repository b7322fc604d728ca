"""What one record holds: whether it is what was written, whether it is a picture, and what is told of it.

Records are looked at in threads, a bounded number at a time; reading, checksums, digests and decoding all leave
Python's lock.
"""

from __future__ import annotations

import itertools
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Iterator, NamedTuple

from mxtrain import machine
from mxtrain.data import images, jpeg, recordio
from mxtrain.data.jpeg import BadPicture, Payload, Pixels
from mxtrain.data.recordio import BadRecord
from mxtrain.data.records import RecordFile
from tools.im2rec_wrapper import fingerprints
from tools.im2rec_wrapper.findings import Finding, of_record
from tools.im2rec_wrapper.structure import Table

_SIGNATURES = (
    (0, jpeg.START, "JPEG"),
    (0, b"\x89PNG", "PNG"),
    (8, b"WEBP", "WebP"),
    (0, b"BM", "BMP"),
    (0, b"II*\0", "TIFF"),
    (0, b"MM\0*", "TIFF"),
)
_SCAN, _INTERVAL = 0xDA, 0xDD
_PROGRESSIVE = (0xC2, 0xC6, 0xCA, 0xCE)


class Look(NamedTuple):
    """What one picture is like; `hash`, `thumbnail` and sizes are None where it was not decoded."""

    digest: int
    num_bytes: int
    format: str
    is_progressive: bool = False
    has_restarts: bool = False
    hash: int | None = None
    thumbnail: Pixels | None = None
    height: int | None = None
    width: int | None = None


def look_at_all(file: RecordFile, table: Table, decode: bool) -> Iterator[Look | Finding]:
    """In the order of the file, for each record what it holds or why that is no picture."""
    num_threads = machine.usable_cores()

    def look(number: int) -> Look | Finding:
        try:
            return _look_at(file, int(table.offsets[number]), table.has_checksums, decode)
        except _Damage as damage:
            return of_record(damage.kind, table.place(number), str(damage))

    remaining = iter(range(len(table)))
    with ThreadPoolExecutor(num_threads) as threads:
        under_way: deque[Future[Look | Finding]] = deque()
        while True:
            room = 4 * num_threads - len(under_way)
            under_way.extend(threads.submit(look, number) for number in itertools.islice(remaining, room))
            if not under_way:
                return
            yield under_way.popleft().result()


class _Damage(Exception):
    def __init__(self, kind: str, text: str):
        super().__init__(text)
        self.kind = kind


def _look_at(file: RecordFile, offset: int, has_checksums: bool, decode: bool) -> Look:
    try:
        data, padding, _ = file.data(offset)
    except BadRecord as bad:
        raise _Damage("structure", str(bad)) from None
    header = recordio.parse_header(data)
    try:
        if has_checksums:
            recordio.check(data, padding, header)
    except BadRecord as bad:
        raise _Damage("checksum", str(bad)) from None
    if any(padding):
        raise _Damage("structure", "its padding is not zeros")
    payload = data[header.payload_start :]
    look = _without_decoding(payload)
    if not decode:
        return look
    try:
        pixels = images.decode(payload)
    except BadPicture as bad:
        raise _Damage("undecodable", str(bad)) from None
    return look._replace(
        hash=fingerprints.perceptual_hash(pixels),
        thumbnail=fingerprints.thumbnail(pixels),
        height=pixels.shape[0],
        width=pixels.shape[1],
    )


def _without_decoding(payload: Payload) -> Look:
    start = bytes(payload[:16])
    kinds = (name for at, signature, name in _SIGNATURES if start[at:].startswith(signature))
    is_progressive = has_restarts = False
    if jpeg.is_jpeg(payload):
        for marker, content in _segments(payload):
            is_progressive |= marker in _PROGRESSIVE
            has_restarts |= marker == _INTERVAL and any(content)
    return Look(
        fingerprints.digest(payload), len(payload), next(kinds, "other"), is_progressive, has_restarts
    )


def _segments(payload: Payload) -> Iterator[tuple[int, Payload]]:
    """Marker and content of each part of a JPEG's header, up to the scan or the first that is malformed."""
    at = 2
    while at + 4 <= len(payload) and payload[at] == 0xFF and payload[at + 1] != _SCAN:
        length = payload[at + 2] << 8 | payload[at + 3]
        yield payload[at + 1], payload[at + 4 : at + 2 + length]
        at += 2 + max(length, 2)
