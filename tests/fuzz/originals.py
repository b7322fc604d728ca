"""The good files that are damaged: small records with every kind of picture, ours and another tool's."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import cv2
import numpy as np

from mxtrain.data.records import recordio
from mxtrain.data.records.record_file import classes_path, index_path
from mxtrain.data.records.record_writer import RecordWriter, rebuild_index

NUM_CLASSES = 2


@dataclasses.dataclass(frozen=True)
class Original:
    """A good .rec with what lies beside, as bytes, and what reads from it."""

    rec: bytes
    index: bytes
    classes: bytes
    offsets: list[int]
    contents: dict[int, tuple[float, bytes]]  # of each key: label and payload
    has_checksums: bool

    def write(self, rec: Path, with_index: bool) -> None:
        rec.write_bytes(self.rec)
        classes_path(rec).write_bytes(self.classes)
        index_path(rec).unlink(missing_ok=True)
        if with_index:
            index_path(rec).write_bytes(self.index)


def pictures(seed: int) -> dict[str, bytes]:
    """One of each kind, the same for a seed."""
    random = np.random.default_rng(seed)

    def pixels() -> np.ndarray:
        height, width = (int(side) for side in random.integers(17, 60, 2))
        return cv2.resize(random.integers(0, 256, (5, 7, 3), np.uint8), (width, height))

    def jpeg(image: np.ndarray, *options: int) -> bytes:
        return cv2.imencode(".jpg", image, options)[1].tobytes()

    restarts = cv2.resize(pixels(), (64, 48))  # 4 x 3 units of 16 x 16 pixels
    return {
        "jpeg": jpeg(pixels()),
        "jpeg-restarts": jpeg(restarts, cv2.IMWRITE_JPEG_RST_INTERVAL, 2),
        "jpeg-progressive": jpeg(pixels(), cv2.IMWRITE_JPEG_PROGRESSIVE, 1),
        "jpeg-grey": jpeg(pixels()[:, :, 0], cv2.IMWRITE_JPEG_RST_INTERVAL, 1),
        "png": cv2.imencode(".png", pixels())[1].tobytes(),
        "webp": cv2.imencode(".webp", pixels(), [cv2.IMWRITE_WEBP_QUALITY, 101])[1].tobytes(),
        "bmp": cv2.imencode(".bmp", cv2.resize(pixels(), (9, 8)))[1].tobytes(),
    }


def ours(path: Path, first_key: int, payloads: list[bytes]) -> Original:
    """Written by RecordWriter, so with checksums."""
    with RecordWriter(path) as writer:
        for place, payload in enumerate(payloads):
            writer.write(first_key + place, float(place % NUM_CLASSES), payload)
    return _read(path, first_key, payloads, has_checksums=True)


def foreign(path: Path, payloads: list[bytes]) -> Original:
    """Return a .rec as MXNet's im2rec writes it, without checksums."""
    headers = [recordio.HEADER.pack(0, float(key % NUM_CLASSES), key, 0) for key in range(len(payloads))]
    path.write_bytes(b"".join(recordio.frame(head + data) for head, data in zip(headers, payloads)))
    rebuild_index(path)
    return _read(path, 0, payloads, has_checksums=False)


def _read(path: Path, first_key: int, payloads: list[bytes], has_checksums: bool) -> Original:
    labels = [float(place % NUM_CLASSES) for place in range(len(payloads))]
    contents = {
        first_key + place: (label, payload) for place, (label, payload) in enumerate(zip(labels, payloads))
    }
    names = [f"class {label}" for label in range(NUM_CLASSES)]
    classes = recordio.format_classes(names, [labels.count(label) for label in range(NUM_CLASSES)])
    index = index_path(path).read_bytes()
    _, offsets = recordio.parse_index(index)
    return Original(path.read_bytes(), index, classes, offsets.tolist(), contents, has_checksums)
