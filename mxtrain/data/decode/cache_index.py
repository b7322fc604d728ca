"""The file format of the cache: the pixels of all pictures, then their index, then the offset of the index.

Owns the index, and storing it. The pixels are written, and read, by `pixel_cache.py`.
"""

from __future__ import annotations

import io
import math
import os
import struct
import zipfile
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from mxtrain.core.errors import DataError
from mxtrain.data.decode import jpeg
from mxtrain.data.fields import Array

TRAILER = struct.Struct("<8sQ")  # MAGIC, and the offset of the index
MAGIC = b"MXTPIXEL"


class PixelIndex(NamedTuple):
    """The table of all pictures, one row each; a file keeps its columns under these names."""

    offsets: Array
    sizes: Array  # height and width; 0 where there is no picture
    orientations: Array
    smallest: Array  # the largest scale factor it is stored at; all the lower ones lie before it
    labels: Array
    checksums: Array  # CRC-32 at each scale

    def locate(self, position: int, scale: int) -> tuple[int, int, int]:
        """Return the offset of a picture at this scale, and its height and width there."""
        offset = int(self.offsets[position])
        height, width = self.sizes[position].tolist()
        for larger in jpeg.SCALES[: jpeg.SCALES.index(scale)]:
            offset += 3 * math.prod(_shape(height, width, larger))
        return (offset, *_shape(height, width, scale))


def append(index: PixelIndex, file: IO[bytes]) -> None:
    """Append the index as an archive whose offsets count from its own start, or Python would refuse to read it."""
    start, archive = file.tell(), io.BytesIO()
    np.savez(archive, **index._asdict())
    file.write(archive.getbuffer())
    file.write(TRAILER.pack(MAGIC, start))


def read(path: Path, count: int) -> PixelIndex:
    """Read the index of a cache file; DataError unless the file is whole and holds `count` pictures."""
    try:
        with path.open("rb") as file:
            file.seek(-TRAILER.size, os.SEEK_END)
            end = file.tell()
            magic, start = TRAILER.unpack(file.read())
            file.seek(start)
            content = file.read(end - start)
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            index = PixelIndex(**{name: arrays[name] for name in PixelIndex._fields})
    except (OSError, ValueError, KeyError, struct.error, zipfile.BadZipFile):
        index = None
    if index is None or magic != MAGIC or len(index.offsets) != count:
        raise DataError(f"{path}: is not a whole cache; remove it and run again")
    return index


def _shape(height: int, width: int, scale: int) -> tuple[int, int]:
    """Return height and width of a picture of this size at 1/`scale`."""
    return -(-height // scale), -(-width // scale)
