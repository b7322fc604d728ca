"""The cache of decoded pictures, before anything random is done to them: `--cache ram | disk`.

Owns filling the cache. All pictures are decoded once, at the start, into one file of pixels that every worker then
reads: for `ram` an unnamed file in memory, for `disk` a file in the cache folder, which later runs find again by a
fingerprint of the .rec. So a cache is whole or not there. A JPEG is stored at every scale that a crop may be decoded
at, so crops are to the bit those of the .rec. Bad pictures and records are not cached: reading one fails as it does
without a cache. Does not own its file format (`cache_index.py`), decoding (`decoding.py`), or cropping
(`data/augment/crops.py`).
"""

from __future__ import annotations

import functools
import hashlib
import io
import logging
import os
import shutil
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, NamedTuple, Protocol

import numpy as np

from mxtrain import config, native
from mxtrain.config.values import sizes
from mxtrain.core.errors import DataError, UsageError
from mxtrain.core.system import machine
from mxtrain.data.decode import cache_index, decoding, jpeg
from mxtrain.data.decode.cache_index import PixelIndex
from mxtrain.data.decode.jpeg import BadPicture, Pixels
from mxtrain.data.interfaces import Record, Records
from mxtrain.data.records import record_writer
from mxtrain.data.records.record_writer import open_alone
from mxtrain.data.records.recordio import Floats, Ints, Label

logger = logging.getLogger(__name__)

AT_ONCE = 64  # pictures in memory while the cache is filled
SAMPLED = 256  # pictures from which the size of the cache is estimated
WAIT_SECONDS = 0.5
SPARE = 0.2  # of the free memory or disk, left to other programs


class DecodedRecord(NamedTuple):
    """A record whose picture is decoded, as stored (not turned upright), at each scale."""

    label: Label
    orientation: int
    scales: list[Pixels]
    checksums: list[int]


class OnProgress(Protocol):
    """Called often while the cache is filled; stops it by raising."""

    def __call__(self, has_moved: bool, done: int = 0, total: int = 0) -> None:
        """Take whether there was progress since the last call, and how many pictures of all are done, if any is."""


def ignore_progress(has_moved: bool, done: int = 0, total: int = 0) -> None:
    """Do nothing: the default."""


def with_cache(
    data: config.Data, records: Records, out: Path, on_progress: OnProgress = ignore_progress
) -> Records:
    """Return the records, or those of a cache filled from them, as --cache says.

    `out` is the run's folder, which holds the cache where there is no --cache-dir.
    """
    if data.cache == "none":
        return records
    if data.cache == "ram":
        return in_memory(
            records, machine.usable_cores(), on_progress, max(sizes.height_and_width(data.image_size))
        )
    folder = Path(data.cache_dir or out / "cache")
    return on_disk(
        records, machine.usable_cores(), folder, on_progress, max(sizes.height_and_width(data.image_size))
    )


def in_memory(
    records: Records, num_threads: int, on_progress: OnProgress = ignore_progress, image_size: int = 1
) -> CachedRecords:
    """Return the records with all pictures decoded in RAM, which worker processes share.

    They are decoded by `num_threads`, and at all scales down to the one for crops of `image_size` pixels, the
    longer side. UsageError
    where they do not fit.
    """
    free = machine.available_memory()
    _refuse_if_too_large(records, free, "--cache ram", "--cache disk", on_progress, image_size)
    descriptor = os.memfd_create("mxtrain-cache")
    with open(descriptor, "wb", closefd=False) as file:
        index = _decode_all(records, file, num_threads, on_progress, image_size)
    return CachedRecords(records, descriptor, index, is_checked=False)


def on_disk(
    records: Records,
    num_threads: int,
    folder: Path,
    on_progress: OnProgress = ignore_progress,
    image_size: int = 1,
) -> CachedRecords:
    """Return the records with all pictures decoded in a file in `folder`, an earlier run's where there is one.

    The arguments are those of `in_memory`.
    """
    fingerprint = fingerprint_of(records)
    path = pixels_path(folder, fingerprint, image_size)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            _remove_outdated(folder / f"{fingerprint}.pixels")
            free = shutil.disk_usage(folder).free
            _refuse_if_too_large(
                records, free, f"--cache-dir {folder}", "another folder", on_progress, image_size
            )
            _write(records, num_threads, path, on_progress, image_size)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"--cache-dir {folder}: {error.strerror}; give another folder") from None
    return CachedRecords(records, descriptor, cache_index.read(path, len(records)), is_checked=True)


class CachedRecords:
    """`Records` whose payloads are decoded pictures."""

    def __init__(self, records: Records, descriptor: int, index: PixelIndex, is_checked: bool):
        self.path = records.path
        self.keys = records.keys
        self.files: list[Path] = []
        self.class_names = records.class_names
        self.descriptors = (*records.descriptors, descriptor)
        self._records = records
        self._index = index
        self._is_checked = is_checked
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)

    def __len__(self) -> int:
        return len(self.keys)

    def read(self, position: int, verify: bool = True) -> Record:
        """Return a record without reading its pixels: the scale at which they are wanted is not known yet."""
        index = self._index
        height, width = index.sizes[position].tolist()
        if not height:
            return self._records.read(position, verify)
        orientation, smallest = int(index.orientations[position]), int(index.smallest[position])
        pixels = functools.partial(self._pixels, position, verify)
        label = index.labels[position]
        picture = decoding.CachedPicture(height, width, orientation, smallest, pixels)
        return Record(int(self.keys[position]), label if label.ndim else float(label), picture)

    def _pixels(self, position: int, verify: bool, scale: int) -> Pixels:
        offset, height, width = self._index.locate(position, scale)
        pixels = np.empty((height, width, 3), np.uint8)
        is_right = os.preadv(self._descriptor, [pixels.data], offset) == pixels.nbytes
        if is_right and verify and self._is_checked:
            checksum = self._index.checksums[position, jpeg.SCALES.index(scale)]
            is_right = native.crc32(pixels.data) == checksum
        if not is_right:
            raise DataError(
                f"{self.where(position)}: its pixels in --cache-dir are damaged; empty that folder"
            )
        return pixels

    def where(self, position: int) -> str:
        return self._records.where(position)

    def will_need(self, positions: Ints) -> None:
        """Start reading the full scale ahead: most pictures are read at it, and the other scales lie behind it."""
        lengths = 3 * self._index.sizes[positions].prod(axis=1)
        for offset, length in zip(self._index.offsets[positions].tolist(), lengths.tolist()):
            if length:  # 0 would mean the whole file
                os.posix_fadvise(self._descriptor, offset, length, os.POSIX_FADV_WILLNEED)

    def labels(self) -> Floats:
        return self._records.labels()


def pixels_path(folder: Path, fingerprint: str, image_size: int) -> Path:
    """Return the path of a cache on disk, by its records and the image size."""
    return folder / f"{fingerprint}-{image_size}.pixels"


def _remove_outdated(path: Path) -> None:
    """Remove the cache of an earlier mxtrain, which held full scale only and nothing turned upright."""
    if path.exists():
        path.unlink(missing_ok=True)
        logger.info("%s is of an earlier mxtrain, and is replaced", path)


def _decode_all(
    records: Records, file: IO[bytes], num_threads: int, on_progress: OnProgress, image_size: int
) -> PixelIndex:
    count = len(records)
    index = PixelIndex(
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
                    index.offsets[position] = file.tell()
                    index.sizes[position] = decoded.scales[0].shape[:2]
                    index.orientations[position] = decoded.orientation
                    index.smallest[position] = jpeg.SCALES[len(decoded.scales) - 1]
                    index.labels[position] = decoded.label
                    index.checksums[position, : len(decoded.scales)] = decoded.checksums
                    for pixels in decoded.scales:
                        file.write(pixels.data)
            on_progress(True, positions.stop, count)
    return index


def _decode(records: Records, position: int, image_size: int) -> DecodedRecord | None:
    """Return None where the record or its picture is bad: reading it will raise the reason."""
    try:
        record = records.read(position)
        orientation, scales = decoding.decode_all_scales(record.payload, image_size)
    except (DataError, BadPicture):
        return None
    scales = [np.ascontiguousarray(pixels) for pixels in scales]
    return DecodedRecord(record.label, orientation, scales, [native.crc32(pixels.data) for pixels in scales])


def _refuse_if_too_large(
    records: Records, free: int, flag: str, instead: str, on_progress: OnProgress, image_size: int
) -> None:
    sizes = []
    for position in np.unique(np.linspace(0, len(records) - 1, SAMPLED).astype(np.int64)).tolist():
        decoded = _decode(records, position, image_size)
        if decoded is not None:
            sizes.append(sum(pixels.nbytes for pixels in decoded.scales))
        on_progress(True)
    needed = sum(sizes) / max(1, len(sizes)) * len(records)
    if needed > free * (1 - SPARE):
        raise UsageError(
            f"{flag}: the decoded pictures of {records.path} take about {needed / 1e9:.1f} GB and {free / 1e9:.1f} GB "
            f"are free; give {instead}, or --cache none"
        )


def fingerprint_of(records: Records) -> str:
    """Return a text that changes with every change of the .rec files that their size, time or index shows."""
    digest = hashlib.sha256(np.ascontiguousarray(records.keys).tobytes())
    for path in records.files:
        status = path.stat()
        digest.update(f"{path.absolute()} {status.st_size} {status.st_mtime_ns}".encode())
    return digest.hexdigest()[:24]


def _write(records: Records, num_threads: int, path: Path, on_progress: OnProgress, image_size: int) -> None:
    """Write the pixels, the index, and the offset of the index to a temporary file, and rename that when it is whole.

    Of several processes that want the cache one writes it, and the others wait. Where the writer is killed, its lock
    goes with it, and the next process takes the temporary file over.
    """
    num_there = -1
    while not path.exists():
        try:
            aside = open_alone(record_writer.aside(path))
        except BlockingIOError:
            logger.info("waiting for another process that fills %s", path)
            time.sleep(WAIT_SECONDS)
            num_before, num_there = num_there, _size_of(record_writer.aside(path))
            on_progress(num_there != num_before)
            continue
        with io.BufferedWriter(aside) as file:
            try:
                if os.fstat(file.fileno()).st_size:
                    file.truncate(0)
                index = _decode_all(records, file, num_threads, on_progress, image_size)
                cache_index.append(index, file)
                file.flush()
                os.fsync(file.fileno())
                record_writer.aside(path).replace(path)
            except BaseException:
                record_writer.aside(path).unlink()
                raise


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # renamed meanwhile
        return 0
