"""The RecordIO format, byte for byte: frames, image-record headers, the checksum, and the text files beside.

Owns pure functions over bytes; `record_file.py` reads files, `record_writer.py` writes them.

    file    frames, one after the other
    frame   u32 0xced7230a | u32 (cflag << 29 | length) | data | zeros up to a multiple of 4
    record  one frame with cflag 0; or, where the data holds the magic number at a multiple of 4, the parts
            between those magic numbers as frames with cflag 1, 2 ..., 3
    data    u32 flag | f32 label | u64 id | u64 id2 | `flag` further f32 labels | payload
    .idx            a line `key<TAB>offset` for each record
    .classes.tsv    a line `name<TAB>number of images` for each class; line k, from 0, is label k

All numbers are little-endian. The format has no checksum, so ours is in a field that MXNet's readers ignore: the
upper half of `id2` holds CHECKSUM_TAG and the lower half the CRC-32 of the data with that lower half zero.
Files of other tools have no tags and cannot be checked.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple, Sequence, Union

import numpy as np
import numpy.typing as npt

from mxtrain import native
from mxtrain.core import plain_text

MAGIC = 0xCED7230A
CHECKSUM_TAG = 0x43523332  # "CR32"
MAX_DATA_BYTES = (1 << 29) - 1
WHOLE, FIRST, MIDDLE, LAST = range(4)  # cflag

FRAME = struct.Struct("<II")
HEADER = struct.Struct("<IfQQ")
MAGIC_BYTES = struct.pack("<I", MAGIC)

Floats = npt.NDArray[np.floating[Any]]  # float32, as records hold them; of other sources perhaps float64
Ints = npt.NDArray[np.int64]
Label = Union[float, Floats]
Data = Union[bytes, memoryview]


class BadRecord(ValueError):
    """The reason why bytes are no good record; a caller that knows the file turns it into a DataError."""


class RecordHeader(NamedTuple):
    """The fixed part of a record's data, before its labels and payload."""

    num_labels: int  # 0: the one label is `label`
    label: float
    id: int
    id2: int

    @property
    def has_tag(self) -> bool:
        """True for a record with our checksum. A tag with a few wrong bits counts, as damaged: other tools write 0."""
        return bin(self.id2 >> 32 ^ CHECKSUM_TAG).count("1") <= 4

    @property
    def payload_start(self) -> int:
        """The offset of the payload in the data."""
        return HEADER.size + 4 * self.num_labels


# Frames


def frame(data: bytes) -> bytes:
    """Return the frame, or frames, of one record with this data."""
    if len(data) > MAX_DATA_BYTES:
        raise BadRecord(f"it holds {len(data)} bytes, and RecordIO takes at most {MAX_DATA_BYTES} a record")
    cuts = _aligned_magics(data)
    starts, ends = [0, *(cut + 4 for cut in cuts)], [*cuts, len(data)]
    flags = [FIRST, *[MIDDLE] * (len(cuts) - 1), LAST] if cuts else [WHOLE]
    parts: list[bytes] = []
    for flag, start, end in zip(flags, starts, ends):
        parts += (FRAME.pack(MAGIC, flag << 29 | end - start), data[start:end])
    return b"".join([*parts, bytes(-len(data) % 4)])


def _aligned_magics(data: bytes) -> list[int]:
    """Return the offsets of magic numbers at multiples of 4, which a reader would take for the next record."""
    words = np.frombuffer(data, "<u4", len(data) // 4)  # 5 times as fast as bytes.find
    found: list[int] = (4 * np.flatnonzero(words == MAGIC)).tolist()
    return found


def join(parts: list[memoryview]) -> memoryview:
    """Return the data of a record, from the parts that `frame` cut it into."""
    return parts[0] if len(parts) == 1 else memoryview(MAGIC_BYTES.join(parts))


def parse_frame(head: Data, is_first: bool) -> tuple[int, int, bool]:
    """Parse the first 8 bytes of a frame; return its length, that with padding, and whether the record ends there.

    `is_first` says whether it must be the first frame of its record, or a further one.
    """
    if len(head) < FRAME.size:
        raise BadRecord("the file ends in the middle of it")
    magic, word = FRAME.unpack_from(head)
    if magic != MAGIC:
        raise BadRecord(f"no record starts there (found {magic:#010x} instead of {MAGIC:#010x})")
    flag, length = word >> 29, word & MAX_DATA_BYTES
    if flag not in ((WHOLE, FIRST) if is_first else (MIDDLE, LAST)):
        raise BadRecord(f"its parts are out of order (part flag {flag})")
    return length, length + -length % 4, flag in (WHOLE, LAST)


# Headers and the checksum


def pack(key: int, label: Label, payload: Data) -> bytes:
    """Return the data of a record as `mx.recordio.pack` writes it with `id` = key, plus our checksum."""
    single = isinstance(label, (int, float))
    labels = b"" if single else np.asarray(label, "<f4").tobytes()
    head = (len(labels) // 4, label if single else 0.0, key)
    checksum = 0
    for part in (HEADER.pack(*head, CHECKSUM_TAG << 32), labels, payload):
        checksum = native.crc32(part, checksum)
    return b"".join([HEADER.pack(*head, CHECKSUM_TAG << 32 | checksum), labels, payload])


def parse_header(data: Data) -> RecordHeader:
    """Return the header at the start of a record's data."""
    if len(data) < HEADER.size:
        raise BadRecord(f"it holds {len(data)} bytes, fewer than an image record's header ({HEADER.size})")
    return RecordHeader(*HEADER.unpack_from(data))


def parse_label(data: Data, header: RecordHeader) -> Label:
    """Return the label: a number, or a view of the array of them."""
    if not header.num_labels:
        return header.label
    if len(data) < header.payload_start:
        raise BadRecord(
            f"it holds {len(data)} bytes, too few for the {header.num_labels} labels it announces"
        )
    return np.frombuffer(data, "<f4", header.num_labels, HEADER.size)


def check(data: Data, padding: Data, header: RecordHeader) -> None:
    """Raise BadRecord unless the record has a checksum and its bytes agree with it."""
    unsigned = bytes(data[:16]) + bytes(4) + bytes(data[20 : HEADER.size])
    actual = native.crc32(data[HEADER.size :], native.crc32(unsigned))
    if header.id2 != CHECKSUM_TAG << 32 | actual or any(padding):
        raise BadRecord("its bytes are not those that were written (the checksum differs)")


# The .idx


def parse_index(text: bytes) -> tuple[Ints, Ints]:
    """Return keys and offsets of an .idx, in its order."""
    num_lines = text.count(b"\n") + (not text.endswith(b"\n"))
    if text.translate(None, b"0123456789\t\r\n") or text.count(b"\t") != num_lines:
        raise BadRecord("is not lines of `number<TAB>offset`")
    numbers = np.fromstring(text.decode("ascii"), np.int64, sep=" ")  # any whitespace; 1.28M lines in 0.3 s
    if len(numbers) != 2 * num_lines:
        raise BadRecord("is not lines of `number<TAB>offset`")
    return numbers[0::2].copy(), numbers[1::2].copy()


def format_index(keys: Ints, offsets: Ints) -> bytes:
    """Return the text of an .idx."""
    return "".join(f"{key}\t{at}\n" for key, at in zip(keys.tolist(), offsets.tolist())).encode("ascii")


# The .classes.tsv


def parse_classes(text: bytes) -> list[str]:
    """Return the class names, from lines of `name<TAB>number of images` (or of the name alone)."""
    try:
        names = [line.split("\t")[0] for line in plain_text.split_lines(text.decode("utf-8"))]
    except UnicodeDecodeError:
        raise BadRecord("is not UTF-8 text") from None
    if not all(names) or len(set(names)) < len(names):
        raise BadRecord("has an empty or repeated class name; line k names class k, counted from 0")
    return names


def format_classes(names: Sequence[str], num_images: Sequence[int] | None) -> bytes:
    """Return the text of a .classes.tsv, without numbers where there are none."""
    if num_images is None:
        return "".join(f"{name}\n" for name in names).encode("utf-8")
    return "".join(f"{name}\t{count}\n" for name, count in zip(names, num_images)).encode("utf-8")


# Files that are something else

_SIGNATURES = (
    (0, b"\xff\xd8\xff", "a JPEG image"),
    (0, b"\x89PNG", "a PNG image"),
    (0, b"\x1f\x8b", "a gzip archive (unpack it first)"),
    (0, b"PK\x03\x04", "a zip archive (unpack it first)"),
    (257, b"ustar", "a tar archive"),
    (0, b"\x89HDF", "an HDF5 file"),
    (16, b"\xde\xc0\xef\xbe", "an LMDB database"),
    (0, b"version https://git-lfs", "a Git LFS pointer (run `git lfs pull`)"),
    (0, b"<!DOCTYPE", "a web page (a download that failed?)"),
    (0, b"<html", "a web page (a download that failed?)"),
)


def describe(start: bytes, num_bytes: int) -> str:
    """Return a guess of what a file is that is no .rec: it has `num_bytes`, and begins with `start`."""
    for at, signature, name in _SIGNATURES:
        if start[at : at + len(signature)] == signature:
            return name
    if not any(start):
        return "zeros (a copy that was not finished?)"
    if len(start) >= 12 and 0 < int.from_bytes(start[:8], "little") <= num_bytes - 16:
        return "a TFRecord file"
    if all(byte in b"\t\n\r" or byte >= 0x20 for byte in start):
        return "a text file"
    return f"binary data that starts with {start[:4].hex()}"
