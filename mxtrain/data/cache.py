"""Decoded pictures kept for later epochs, before anything random happens to them: `--cache ram | disk`.

All pictures are decoded once, at the start, into one file of pixels, which every worker then reads: a file without
a name in memory for `ram`, for `disk` a file in the cache folder that later runs find again by the fingerprint of
the .rec. So a cache is whole or not there. A JPEG is kept at every scale that a crop may be decoded at, so crops are
to the bit those of the .rec. Pictures and records that are bad are left where they are, and say so when they are read.
"""

from __future__ import annotations

import functools
import hashlib
import io
import logging
import math
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

from mxtrain import config
from mxtrain.core import machine
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data import images, jpeg, record_writer
from mxtrain.data.assembly import Array
from mxtrain.data.jpeg import BadPicture, Pixels
from mxtrain.data.record_writer import open_alone
from mxtrain.data.recordio import Floats, Ints, Label
from mxtrain.data.records import Record, Records

logger = logging.getLogger(__name__)

AT_ONCE = 64  # pictures in memory while the cache is made
SAMPLED = 256  # pictures that tell how large all of them will be
WAIT_SECONDS = 0.5
SPARE = 0.2  # of the memory or disk that is free: left to others
TRAILER = struct.Struct("<8sQ")
MAGIC = b"MXTPIXEL"


class Places(NamedTuple):
    """What is known of each picture: where it lies, height and width (0 where there is none), label, and so on."""

    offsets: Array
    sizes: Array
    orientations: Array
    smallest: Array  # the largest of the scales it is kept at, which follow each other
    labels: Array
    checksums: Array  # CRC-32 at each scale

    def place(self, position: int, scale: int) -> tuple[int, int, int]:
        """Where a picture lies at this scale, and its height and width."""
        offset = int(self.offsets[position])
        height, width = self.sizes[position].tolist()
        for larger in jpeg.SCALES[: jpeg.SCALES.index(scale)]:
            offset += 3 * math.prod(_shape(height, width, larger))
        return (offset, *_shape(height, width, scale))


class Decoded(NamedTuple):
    label: Label
    orientation: int
    scales: list[Pixels]
    checksums: list[int]


# Called often during the filling, with whether it has got on; ends it by raising.
Look = Callable[[bool], None]


def unseen(has_moved: bool) -> None:
    """Nobody looks."""


def kept(data: config.Data, records: Records, out: Path, look: Look = unseen) -> Records:
    """The records as --cache wants them."""
    if data.cache == "none":
        return records
    if data.cache == "ram":
        return in_memory(records, machine.usable_cores(), look, data.image_size)
    folder = Path(data.cache_dir or out / "cache")
    return on_disk(records, machine.usable_cores(), folder, look, data.image_size)


def in_memory(records: Records, num_threads: int, look: Look = unseen, image_size: int = 1) -> CachedRecords:
    """All pictures in RAM, which processes share; no crop of them will be smaller than `image_size`."""
    free = machine.available_memory()
    _refuse_if_too_large(records, free, "--cache ram", "--cache disk", look, image_size)
    descriptor = os.memfd_create("mxtrain-cache")
    with open(descriptor, "wb", closefd=False) as file:
        places = _decode_all(records, file, num_threads, look, image_size)
    return CachedRecords(records, descriptor, places, is_checked=False)


def on_disk(
    records: Records, num_threads: int, folder: Path, look: Look = unseen, image_size: int = 1
) -> CachedRecords:
    """All pictures in a file in `folder`; that of an earlier run where there is one."""
    fingerprint = _fingerprint(records)
    path = path_of(folder, fingerprint, image_size)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            _remove_outdated(folder / f"{fingerprint}.pixels")
            free = shutil.disk_usage(folder).free
            _refuse_if_too_large(records, free, f"--cache-dir {folder}", "another folder", look, image_size)
            _write(records, num_threads, path, look, image_size)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"--cache-dir {folder}: {error.strerror}; give another folder") from None
    return CachedRecords(records, descriptor, _read_places(path, len(records)), is_checked=True)


class CachedRecords:
    """As the records, but the payload of each is its pixels (height, width, 3)."""

    def __init__(self, records: Records, descriptor: int, places: Places, is_checked: bool):
        self.path = records.path
        self.keys = records.keys
        self.files: list[Path] = []
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
        """Its pixels are read when it is known at which scale they are wanted."""
        places = self._places
        height, width = places.sizes[position].tolist()
        if not height:
            return self._records.read(position, verify)
        orientation, smallest = int(places.orientations[position]), int(places.smallest[position])
        pixels = functools.partial(self._pixels, position, verify)
        label = places.labels[position]
        kept = images.Kept(height, width, orientation, smallest, pixels)
        return Record(int(self.keys[position]), label if label.ndim else float(label), kept)

    def _pixels(self, position: int, verify: bool, scale: int) -> Pixels:
        offset, height, width = self._places.place(position, scale)
        pixels = np.empty((height, width, 3), np.uint8)
        is_right = os.preadv(self._descriptor, [pixels.data], offset) == pixels.nbytes
        if is_right and verify and self._is_checked:
            checksum = self._places.checksums[position, jpeg.SCALES.index(scale)]
            is_right = zlib.crc32(pixels.data) == checksum
        if not is_right:
            raise DataError(
                f"{self.where(position)}: its pixels in --cache-dir are damaged; empty that folder"
            )
        return pixels

    def where(self, position: int) -> str:
        return self._records.where(position)

    def will_need(self, positions: Ints) -> None:
        """Let the disk begin with those at full scale, which most are read at, and which the others follow."""
        lengths = 3 * self._places.sizes[positions].prod(axis=1)
        for offset, length in zip(self._places.offsets[positions].tolist(), lengths.tolist()):
            if length:  # 0 would mean the whole file
                os.posix_fadvise(self._descriptor, offset, length, os.POSIX_FADV_WILLNEED)

    def labels(self) -> Floats:
        return self._records.labels()


def path_of(folder: Path, fingerprint: str, image_size: int) -> Path:
    return folder / f"{fingerprint}-{image_size}.pixels"


def _remove_outdated(path: Path) -> None:
    """The cache of an earlier mxtrain, which kept full scale only and turned nothing upright."""
    if path.exists():
        path.unlink(missing_ok=True)
        logger.info("%s was of an earlier mxtrain, and is made anew", path)


def _shape(height: int, width: int, scale: int) -> tuple[int, int]:
    """Of a picture of this size, at 1/`scale`."""
    return -(-height // scale), -(-width // scale)


def _decode_all(records: Records, file: IO[bytes], num_threads: int, look: Look, image_size: int) -> Places:
    count = len(records)
    places = Places(
        np.zeros(count, np.int64),
        np.zeros((count, 2), np.int64),
        np.ones(count, np.uint8),
        np.ones(count, np.uint8),
        np.zeros_like(records.labels()),
        np.zeros((count, len(jpeg.SCALES)), np.uint32),
    )
    decode = functools.partial(_decode, records, image_size=image_size)
    logger.info("%s: decoding %d pictures into the cache", records.path, count)
    with ThreadPoolExecutor(num_threads) as threads:
        for start in range(0, count, AT_ONCE):
            positions = range(start, min(start + AT_ONCE, count))
            for position, decoded in zip(positions, threads.map(decode, positions)):
                if decoded is not None:
                    places.offsets[position] = file.tell()
                    places.sizes[position] = decoded.scales[0].shape[:2]
                    places.orientations[position] = decoded.orientation
                    places.smallest[position] = jpeg.SCALES[len(decoded.scales) - 1]
                    places.labels[position] = decoded.label
                    places.checksums[position, : len(decoded.scales)] = decoded.checksums
                    for pixels in decoded.scales:
                        file.write(pixels.data)
            look(True)
    return places


def _decode(records: Records, position: int, image_size: int) -> Decoded | None:
    """None where the record or its picture is bad: whoever reads it will hear why."""
    try:
        record = records.read(position)
        orientation, scales = images.decode_all_scales(record.payload, image_size)
    except (DataError, BadPicture):
        return None
    scales = [np.ascontiguousarray(pixels) for pixels in scales]
    return Decoded(record.label, orientation, scales, [zlib.crc32(pixels.data) for pixels in scales])


def _refuse_if_too_large(
    records: Records, free: int, flag: str, instead: str, look: Look, image_size: int
) -> None:
    sizes = []
    for position in np.unique(np.linspace(0, len(records) - 1, SAMPLED).astype(np.int64)).tolist():
        decoded = _decode(records, position, image_size)
        if decoded is not None:
            sizes.append(sum(pixels.nbytes for pixels in decoded.scales))
        look(True)
    needed = sum(sizes) / max(1, len(sizes)) * len(records)
    if needed > free * (1 - SPARE):
        raise UsageError(
            f"{flag}: the decoded pictures of {records.path} take about {needed / 1e9:.1f} GB and {free / 1e9:.1f} GB "
            f"are free; give {instead}, or --cache none"
        )


def _fingerprint(records: Records) -> str:
    """Another for every change of a file, as far as its size, time and index show."""
    digest = hashlib.sha256(np.ascontiguousarray(records.keys).tobytes())
    for path in records.files:
        status = path.stat()
        digest.update(f"{path.absolute()} {status.st_size} {status.st_mtime_ns}".encode())
    return digest.hexdigest()[:24]


def _write(records: Records, num_threads: int, path: Path, look: Look, image_size: int) -> None:
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
            num_before, num_there = num_there, _size_of(record_writer.aside(path))
            look(num_there != num_before)
            continue
        with io.BufferedWriter(aside) as file:
            try:
                if os.fstat(file.fileno()).st_size:
                    file.truncate(0)
                places = _decode_all(records, file, num_threads, look, image_size)
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


def _size_of(path: Path) -> int:
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
