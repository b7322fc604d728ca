"""The contents of records: whether they are what was written and whole, and statistics and fingerprints of them.

Records are read in threads, a bounded number at a time; reading, checksums, digests and decoding all release Python's
lock. Does not own the structure of the file (`structure.py`), nor the comparison of fingerprints (`copies.py`).
"""

from __future__ import annotations

import itertools
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Callable, Iterator, NamedTuple, Sequence

import numpy as np

from mxtrain.core.system import machine
from mxtrain.data.arrays import array_fields
from mxtrain.data.arrays.array_fields import Input
from mxtrain.data.decode import decoding, jpeg
from mxtrain.data.decode.jpeg import BadPicture, Payload, Pixels
from mxtrain.data.fields import BadSample
from mxtrain.data.packing.pictures import fingerprints
from mxtrain.data.records import recordio
from mxtrain.data.records.recordio import BadRecord
from mxtrain.data.records.recordio_file import RecordIOFile

from .findings import Finding, of_record
from .structure import RecordTable

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


class Content(NamedTuple):
    """The contents of one record; `hash`, `thumbnail`, height and width are known where it was decoded."""

    digest: int
    num_bytes: int
    format: str
    is_progressive: bool = False
    has_restarts: bool = False
    hash: int | None = None
    thumbnail: Pixels | None = None
    height: int | None = None
    width: int | None = None
    is_empty: bool = False  # a document
    classes: tuple[int, ...] = ()  # of a mask
    says_nothing: bool = False  # a mask of no pixel that counts


Inspect = Callable[
    [Payload], Content
]  # `decoded_picture`, `picture`; `document` or `sample` with its arguments


class Damage(Exception):
    """Damage of a record; `fault` is one of findings.WRONG."""

    def __init__(self, fault: str, text: str):
        super().__init__(text)
        self.fault = fault


def read_all(file: RecordIOFile, table: RecordTable, inspect: Inspect) -> Iterator[Content | Finding]:
    """Yield for each record, in the order of the file, its contents or a finding."""
    num_threads = machine.usable_cores()

    def content(number: int) -> Content | Finding:
        try:
            return inspect(payload_at(file, int(table.offsets[number]), table.has_checksums))
        except Damage as damage:
            return of_record(damage.fault, table.location(number), str(damage))

    remaining = iter(range(len(table)))
    with ThreadPoolExecutor(num_threads) as threads:
        in_flight: deque[Future[Content | Finding]] = deque()
        while True:
            room = 4 * num_threads - len(in_flight)
            in_flight.extend(threads.submit(content, number) for number in itertools.islice(remaining, room))
            if not in_flight:
                return
            yield in_flight.popleft().result()


def payload_at(file: RecordIOFile, offset: int, has_checksums: bool) -> memoryview:
    """Return the payload of the record at `offset`; Damage where its bytes are not those that were written."""
    try:
        data, padding, _ = file.data(offset)
        header = recordio.parse_header(data)
    except BadRecord as bad:
        raise Damage("structure", str(bad)) from None
    try:
        if has_checksums:
            recordio.check(data, padding, header)
    except BadRecord as bad:
        raise Damage("checksum", str(bad)) from None
    if any(padding):
        raise Damage("structure", "its padding is not zeros")
    return data[header.payload_start :]


def decoded_picture(payload: Payload) -> Content:
    """Inspect and decode a picture."""
    try:
        pixels = decoding.decode(payload)
    except BadPicture as bad:
        raise Damage("undecodable", str(bad)) from None
    found = fingerprints.of_pixels(pixels)
    return picture(payload)._replace(
        hash=found.hash,
        thumbnail=found.thumbnail,
        height=pixels.shape[0],
        width=pixels.shape[1],
    )


def picture(payload: Payload) -> Content:
    """Inspect a picture without decoding it."""
    start = bytes(payload[:16])
    formats = (name for at, signature, name in _SIGNATURES if start[at:].startswith(signature))
    is_progressive = has_restarts = False
    if jpeg.is_jpeg(payload):
        for marker, content in _segments(payload):
            is_progressive |= marker in _PROGRESSIVE
            has_restarts |= marker == _INTERVAL and any(content)
    digest = fingerprints.digest(payload)
    return Content(digest, len(payload), next(formats, "other"), is_progressive, has_restarts)


def document(payload: Payload, dtype: str, vocab_size: int | None, end_token: int | None) -> Content:
    """Inspect a document: a row of token ids, each below `vocab_size`, the last one its end."""
    if len(payload) % np.dtype(dtype).itemsize:
        raise Damage("tokens", f"its {len(payload)} bytes are no row of {dtype}")
    ids = np.frombuffer(payload, np.dtype(dtype).newbyteorder("<"))
    if len(ids) and vocab_size is not None and int(ids.max()) >= vocab_size:
        raise Damage("tokens", f"it has token {ids.max()}, but the vocabulary ends at {vocab_size - 1}")
    if end_token is not None and (not len(ids) or ids[-1] != end_token):
        raise Damage("tokens", f"it does not end with token {end_token}")
    is_empty = len(ids) == (end_token is not None)
    return Content(fingerprints.digest(payload), len(payload), "tokens", is_empty=is_empty)


def sample(payload: Payload, inputs: Sequence[Input]) -> Content:
    """Inspect a sample of these arrays."""
    try:
        problem = array_fields.refused(inputs, array_fields.decode(inputs, payload))
    except BadSample as bad:
        problem = str(bad)
    if problem:
        raise Damage("arrays", problem)
    return Content(fingerprints.digest(payload), len(payload), "arrays")


def _segments(payload: Payload) -> Iterator[tuple[int, Payload]]:
    """Yield marker and content of each segment of a JPEG's header, up to the scan or the first malformed one."""
    at = 2
    while at + 4 <= len(payload) and payload[at] == 0xFF and payload[at + 1] != _SCAN:
        length = payload[at + 2] << 8 | payload[at + 3]
        yield payload[at + 1], payload[at + 4 : at + 2 + length]
        at += 2 + max(length, 2)
