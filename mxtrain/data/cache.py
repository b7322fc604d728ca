"""Decoded pictures kept for later epochs, before anything random happens to them: `--cache ram | disk`.

All pictures are decoded once, at the start, into one file of pixels, which every worker then reads: a file without
a name in memory for `ram`, for `disk` a file in the cache folder that later runs find again by the fingerprint of
the .rec. So a cache is whole or not there. Pictures and records that are bad are left where they are, and say so
when they are read.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import shutil
import struct
import time
import weakref
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Callable, NamedTuple

import numpy as np

from mxtrain import config, machine
from mxtrain.data import images, record_writer
from mxtrain.data.fill import Array
from mxtrain.data.jpeg import BadPicture, Pixels
from mxtrain.data.record_writer import open_alone
from mxtrain.data.recordio import Floats, Ints, Label
from mxtrain.data.records import Record
from mxtrain.data.sets import AnyRecords
from mxtrain.errors import DataError, UsageError

logger = logging.getLogger(__name__)

AT_ONCE = 64  # pictures in memory while the cache is made
SAMPLED = 256  # pictures that tell how large all of them will be
WAIT_SECONDS = 0.5
SPARE = 0.2  # of the memory or disk that is free: left to others
TRAILER = struct.Struct("<8sQ")
MAGIC = b"MXTPIXEL"


class Places(NamedTuple):
    """What is known of each picture: where it lies, height and width (0 where there is none), label, CRC-32."""

    offsets: Array
    sizes: Array
    labels: Array
    checksums: Array


# Called often during the filling, with whether it has got on; ends it by raising.
Look = Callable[[bool], None]


def unseen(has_moved: bool) -> None:
    """Nobody looks."""


def kept(
    data: config.Data, records: AnyRecords, out: Path, look: Look = unseen
) -> AnyRecords | CachedRecords:
    """The records as --cache wants them."""
    if data.cache == "none":
        return records
    if data.cache == "ram":
        return in_memory(records, machine.usable_cores(), look)
    return on_disk(records, machine.usable_cores(), Path(data.cache_dir or out / "cache"), look)


def in_memory(records: AnyRecords, num_threads: int, look: Look = unseen) -> CachedRecords:
    """All pictures in RAM, which processes share."""
    _refuse_if_too_large(records, machine.available_memory(), "--cache ram", "--cache disk", look)
    descriptor = os.memfd_create("mxtrain-cache")
    with open(descriptor, "wb", closefd=False) as file:
        places = _decode_all(records, file, num_threads, look)
    return CachedRecords(records, descriptor, places, is_checked=False)


def on_disk(records: AnyRecords, num_threads: int, folder: Path, look: Look = unseen) -> CachedRecords:
    """All pictures in a file in `folder`; that of an earlier run where there is one."""
    path = folder / f"{_fingerprint(records)}.pixels"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            free = shutil.disk_usage(folder).free
            _refuse_if_too_large(records, free, f"--cache-dir {folder}", "another folder", look)
            _write(records, num_threads, path, look)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"--cache-dir {folder}: {error.strerror}; give another folder") from None
    return CachedRecords(records, descriptor, _read_places(path, len(records)), is_checked=True)


class CachedRecords:
    """As the records, but the payload of each is its pixels (height, width, 3)."""

    def __init__(self, records: AnyRecords, descriptor: int, places: Places, is_checked: bool):
        self.path = records.path
        self.keys = records.keys
        self.class_names = records.class_names
        self.descriptors = (*records.descriptors, descriptor)
        self._records = records
        self._places = places
        self._is_checked = is_checked
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)

    def __len__(self) -> int:
        return len(self.keys)

    def read(self, position: int, verify: bool = True) -> Record:
        offsets, sizes, labels, checksums = self._places
        height, width = sizes[position].tolist()
        if not height:
            return self._records.read(position, verify)
        pixels = np.empty((height, width, 3), np.uint8)
        num_read = os.preadv(self._descriptor, [pixels.data], int(offsets[position]))
        if num_read < pixels.nbytes or (
            verify and self._is_checked and zlib.crc32(pixels.data) != checksums[position]
        ):
            raise DataError(
                f"{self.where(position)}: its pixels in --cache-dir are damaged; empty that folder"
            )
        label = labels[position]
        return Record(int(self.keys[position]), label if label.ndim else float(label), pixels)

    def where(self, position: int) -> str:
        return self._records.where(position)

    def will_need(self, positions: Ints) -> None:
        lengths = 3 * self._places.sizes[positions].prod(axis=1)
        for offset, length in zip(self._places.offsets[positions].tolist(), lengths.tolist()):
            if length:  # 0 would mean the whole file
                os.posix_fadvise(self._descriptor, offset, length, os.POSIX_FADV_WILLNEED)

    def labels(self) -> Floats:
        return self._records.labels()


def _decode_all(records: AnyRecords, file: IO[bytes], num_threads: int, look: Look) -> Places:
    count = len(records)
    places = Places(
        np.zeros(count, np.int64),
        np.zeros((count, 2), np.int64),
        np.zeros_like(records.labels()),
        np.zeros(count, np.uint32),
    )
    logger.info("%s: decoding %d pictures into the cache", records.path, count)
    with ThreadPoolExecutor(num_threads) as threads:
        for start in range(0, count, AT_ONCE):
            positions = range(start, min(start + AT_ONCE, count))
            for position, decoded in zip(positions, threads.map(lambda at: _decode(records, at), positions)):
                if decoded is not None:
                    label, pixels, checksum = decoded
                    places.offsets[position] = file.tell()
                    places.sizes[position] = pixels.shape[:2]
                    places.labels[position] = label
                    places.checksums[position] = checksum
                    file.write(pixels.data)
            look(True)
    return places


def _decode(records: AnyRecords, position: int) -> tuple[Label, Pixels, int] | None:
    """None where the record or its picture is bad: whoever reads it will hear why."""
    try:
        record = records.read(position)
        pixels = np.ascontiguousarray(images.decode(record.payload))
    except (DataError, BadPicture):
        return None
    return record.label, pixels, zlib.crc32(pixels.data)


def _refuse_if_too_large(records: AnyRecords, free: int, flag: str, instead: str, look: Look) -> None:
    sizes = []
    for position in np.unique(np.linspace(0, len(records) - 1, SAMPLED).astype(np.int64)).tolist():
        decoded = _decode(records, position)
        if decoded is not None:
            sizes.append(decoded[1].nbytes)
        look(True)
    needed = sum(sizes) / max(1, len(sizes)) * len(records)
    if needed > free * (1 - SPARE):
        raise UsageError(
            f"{flag}: the decoded pictures of {records.path} take about {needed / 1e9:.1f} GB and {free / 1e9:.1f} GB "
            f"are free; give {instead}, or --cache none"
        )


def _fingerprint(records: AnyRecords) -> str:
    """Another for every change of a file, as far as its size, time and index show."""
    digest = hashlib.sha256(np.ascontiguousarray(records.keys).tobytes())
    for path in records.files:
        status = path.stat()
        digest.update(f"{path.absolute()} {status.st_size} {status.st_mtime_ns}".encode())
    return digest.hexdigest()[:24]


def _write(records: AnyRecords, num_threads: int, path: Path, look: Look) -> None:
    """The pixels, then the places, then where these start; renamed when all of it is there.

    Of several processes that want it one writes, and the others wait for it. One that is killed lets go of the file
    aside, which the next one takes over.
    """
    num_there = -1
    while not path.exists():
        try:
            aside = open_alone(record_writer.aside(path))
        except BlockingIOError:
            logger.info("waiting for another process that fills %s", path)
            time.sleep(WAIT_SECONDS)
            num_before, num_there = num_there, _num_bytes(record_writer.aside(path))
            look(num_there != num_before)
            continue
        with io.BufferedWriter(aside) as file:
            try:
                if os.fstat(file.fileno()).st_size:
                    file.truncate(0)
                places = _decode_all(records, file, num_threads, look)
                _append_places(places, file)
                file.flush()
                os.fsync(file.fileno())
                record_writer.aside(path).replace(path)
            except BaseException:
                record_writer.aside(path).unlink()
                raise


def _append_places(places: Places, file: IO[bytes]) -> None:
    """An archive that counts from its own beginning: one that counts from the file's is refused once it is cut out."""
    start, archive = file.tell(), io.BytesIO()
    np.savez(archive, **places._asdict())
    file.write(archive.getbuffer())
    file.write(TRAILER.pack(MAGIC, start))


def _num_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # renamed meanwhile
        return 0


def _read_places(path: Path, count: int) -> Places:
    try:
        with path.open("rb") as file:
            file.seek(-TRAILER.size, os.SEEK_END)
            end = file.tell()
            magic, start = TRAILER.unpack(file.read())
            file.seek(start)
            content = file.read(end - start)
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            places = Places(**{name: arrays[name] for name in Places._fields})
    except (OSError, ValueError, KeyError, struct.error, zipfile.BadZipFile):
        places = None
    if places is None or magic != MAGIC or len(places.offsets) != count:
        raise DataError(f"{path}: is not a whole cache; remove it and run again")
    return places
