"""Ways to damage bytes: any bytes, JPEG files, PNG files, and the lines of an .idx.

Each takes a random generator and the bytes, and returns other bytes (now and then the same). Does not own the expected
result (`case.py`).
"""

from __future__ import annotations

import random
import struct
import zlib
from typing import Callable

Random = random.Random
Mutation = Callable[[Random, bytes], bytes]
INTERESTING = (0, 1, 2, 3, 7, 8, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xCED7230A)


def mutate(random: Random, data: bytes, kinds: dict[str, Mutation]) -> tuple[bytes, str]:
    """Apply one to three mutations, one after the other; return the bytes, and the names of the mutations."""
    names = random.choices(sorted(kinds), k=random.choice((1, 1, 1, 2, 3)))
    for name in names:
        data = kinds[name](random, data)
    return data, "+".join(names)


# Any bytes


def flip_bits(random: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 8)) if data else 0):
        bit = random.randrange(8 * len(data))
        changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def set_bytes(random: Random, data: bytes) -> bytes:
    start, end = _range(random, data, longest=8)
    return data[:start] + bytes(random.randrange(256) for _ in range(end - start)) + data[end:]


def set_word(random: Random, data: bytes) -> bytes:
    """Change a number of four bytes where frames and headers have theirs, among them lengths and flags."""
    if len(data) < 4:
        return data
    at = 4 * random.randrange(len(data) // 4)
    old = struct.unpack_from("<I", data, at)[0]
    nearby = [old + 1, old - 1, old + 4, old * 2, old ^ 1 << random.randrange(32), len(data) - at]
    new = random.choice([*INTERESTING, *nearby]) & 0xFFFFFFFF
    return data[:at] + struct.pack("<I", new) + data[at + 4 :]


def truncate(random: Random, data: bytes) -> bytes:
    end = random.randint(0, len(data))
    return data[: end - end % 4] if random.random() < 0.5 else data[:end]


def remove(random: Random, data: bytes) -> bytes:
    start, end = _range(random, data)
    return data[:start] + data[end:]


def duplicate(random: Random, data: bytes) -> bytes:
    start, end = _range(random, data)
    return data[:end] + data[start:end] + data[end:]


def swap(random: Random, data: bytes) -> bytes:
    a, b, c, d = sorted(random.randint(0, len(data)) for _ in range(4))
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def blank(random: Random, data: bytes) -> bytes:
    start, end = _range(random, data)
    return data[:start] + bytes(end - start) + data[end:]


def insert(random: Random, data: bytes) -> bytes:
    at = random.randint(0, len(data))
    return data[:at] + bytes(random.randrange(256) for _ in range(random.randint(1, 9))) + data[at:]


def empty(random: Random, data: bytes) -> bytes:
    return b""


def splice(other: bytes) -> Mutation:
    """The beginning of one file and the end of another."""

    def mutation(random: Random, data: bytes) -> bytes:
        here, there = random.randint(0, len(data)), random.randint(0, len(other))
        step = random.choice((1, 4))
        return data[: here // step * step] + other[there // step * step :]

    return mutation


ANY: dict[str, Mutation] = {
    f.__name__: f
    for f in (flip_bits, set_bytes, set_word, truncate, remove, duplicate, swap, blank, insert, empty)
}


def _range(random: Random, data: bytes, longest: int = 1 << 30) -> tuple[int, int]:
    start = random.randint(0, len(data))
    return start, random.randint(start, min(len(data), start + longest))


# Records


def records(offsets: list[int]) -> dict[str, Mutation]:
    """Return mutations that remove, repeat or exchange whole records, which start at these offsets."""

    def pieces(data: bytes) -> list[bytes]:
        ends = [*offsets[1:], len(data)]
        return [data[start:end] for start, end in zip(offsets, ends)]

    def shuffle_records(random: Random, data: bytes) -> bytes:
        some = pieces(data)
        return b"".join(random.sample(some, len(some)))

    def remove_record(random: Random, data: bytes) -> bytes:
        some = pieces(data)
        del some[random.randrange(len(some))]
        return b"".join(some)

    def repeat_record(random: Random, data: bytes) -> bytes:
        some = pieces(data)
        return b"".join([*some, random.choice(some)])

    return {f.__name__: f for f in (shuffle_records, remove_record, repeat_record)}


# JPEG


def jpeg_size(random: Random, data: bytes) -> bytes:
    """Another height or width in the frame header, also huge and zero."""
    at = next((at for at, marker in _segments(data) if marker in (0xC0, 0xC1, 0xC2)), None)
    if at is None:
        return data
    place = at + 5 + random.choice((0, 2))
    old = int.from_bytes(data[place : place + 2], "big")
    new = random.choice((0, 1, old - 1, old + 1, old + 16, 2 * old, 16000, 65500, 65535)) & 0xFFFF
    return data[:place] + struct.pack(">H", new) + data[place + 2 :]


def jpeg_interval(random: Random, data: bytes) -> bytes:
    """A restart interval where there is none, or another one."""
    interval = struct.pack(">HHH", 0xFFDD, 4, random.choice((0, 1, 2, 3, 4, 5, 8, 255, 65535)))
    for at, marker in _segments(data):
        if marker == 0xDD:
            return data[:at] + interval + data[at + 6 :]
    at = max((at for at, _ in _segments(data)), default=2)
    return data[:at] + interval + data[at:]


def jpeg_segment(random: Random, data: bytes) -> bytes:
    """A segment of the header removed, repeated, moved to the front, or with another marker or length."""
    starts = [at for at, _ in _segments(data)]
    if len(starts) < 2:
        return data
    number = random.randrange(len(starts) - 1)
    start, end = starts[number], starts[number + 1]
    segment = data[start:end]
    head, tail = data[:start], data[end:]
    kind = random.randrange(5)
    if kind == 0:
        return head + tail
    if kind == 1:
        return head + segment + segment + tail
    if kind == 2:
        return data[:2] + segment + data[2:start] + tail
    if kind == 3:
        return head + bytes([0xFF, random.randrange(256)]) + segment[2:] + tail
    return head + segment[:2] + struct.pack(">H", random.choice((0, 1, 2, 3, 8, 65535))) + segment[4:] + tail


def jpeg_restarts(random: Random, data: bytes) -> bytes:
    """A restart marker renumbered, removed or added, or two pieces between them exchanged."""
    found = [at for at in range(len(data) - 1) if data[at] == 0xFF and 0xD0 <= data[at + 1] <= 0xD7]
    kind = random.randrange(4) if len(found) > 2 else 3
    if kind == 3:
        at = random.randint(0, len(data))
        return data[:at] + bytes([0xFF, 0xD0 + random.randrange(8)]) + data[at:]
    place = random.randrange(len(found) - 2)
    one, two, three = found[place : place + 3]
    if kind == 0:
        return data[: one + 1] + bytes([0xD0 + random.randrange(8)]) + data[one + 2 :]
    if kind == 1:
        return data[:one] + data[one + 2 :]
    return data[: one + 2] + data[two + 2 : three] + data[two : two + 2] + data[one + 2 : two] + data[three:]


def jpeg_end(random: Random, data: bytes) -> bytes:
    """No end marker, or one in the middle."""
    at = random.randint(0, len(data))
    return data[:-2] if random.random() < 0.5 else data[:at] + b"\xff\xd9" + data[at:]


JPEG: dict[str, Mutation] = {
    **ANY,
    **{f.__name__: f for f in (jpeg_size, jpeg_interval, jpeg_segment, jpeg_restarts, jpeg_end)},
}


def _segments(data: bytes) -> list[tuple[int, int]]:
    """Return offset and marker of each segment of the header; that of the scan is the last."""
    found, at = [], 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        found.append((at, data[at + 1]))
        if data[at + 1] == 0xDA:
            break
        at += 2 + struct.unpack_from(">H", data, at + 2)[0]
    return found


# PNG


def png_size(random: Random, data: bytes) -> bytes:
    """Another size, depth or colour type, with the right checksum."""
    if len(data) < 33:
        return data
    header = bytearray(data[12:29])
    at = random.choice((4, 8))
    old = struct.unpack_from(">I", header, at)[0]
    struct.pack_into(">I", header, at, random.choice((0, 1, old + 1, 2 * old, 30000, 0x7FFFFFFF)))
    if random.random() < 0.5:
        header[random.choice((12, 13, 16))] = random.randrange(17)
    return data[:12] + bytes(header) + struct.pack(">I", zlib.crc32(header)) + data[33:]


PNG: dict[str, Mutation] = {**ANY, "png_size": png_size}


# .idx


def index_lines(random: Random, data: bytes) -> bytes:
    """Lines removed, repeated, exchanged, joined, or followed by others."""
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    place, other = random.randrange(len(lines)), random.randrange(len(lines))
    kind = random.randrange(6)
    if kind == 0:
        del lines[place]
    elif kind == 1:
        lines.insert(other, lines[place])
    elif kind == 2:
        lines[place], lines[other] = lines[other], lines[place]
    elif kind == 3:
        lines[place] = lines[place].rstrip(b"\n")
    elif kind == 4:
        lines.append(random.choice((b"\n", b"\t", b"7\t0\n", b"x\ty\n", b"9\t99999999999999999999\n", b"\0")))
    else:
        lines = [line.replace(b"\n", b"\r\n") for line in lines]
    return b"".join(lines)


def index_number(random: Random, data: bytes) -> bytes:
    """Another key or offset in one line."""
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    place, column = random.randrange(len(lines)), random.randrange(2)
    columns = lines[place].rstrip(b"\n").split(b"\t")
    new = random.choice(
        (b"", b"0", b"4", b"-4", b"1e3", b" 8", b"%d" % random.choice(INTERESTING), b"%d" % 2**64)
    )
    columns[min(column, len(columns) - 1)] = new
    lines[place] = b"\t".join(columns) + b"\n"
    return b"".join(lines)


INDEX: dict[str, Mutation] = {**ANY, "index_lines": index_lines, "index_number": index_number}
