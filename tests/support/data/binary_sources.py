"""TFRecord and LMDB files written by hand."""

from __future__ import annotations

import struct

import cv2
import lmdb
import numpy as np

from mxtrain.data.sources.formats.crc32c import crc32c

PIXELS = np.random.default_rng(0).integers(0, 256, (4, 6, 5, 3), dtype=np.uint8)  # RGB
PNGS = [cv2.imencode(".png", image[:, :, ::-1])[1].tobytes() for image in PIXELS]


def varint(value):
    value &= (1 << 64) - 1
    data = b""
    while value > 127:
        data += bytes([value & 127 | 128])
        value >>= 7
    return data + bytes([value])


def number_field(number, value):
    return varint(number << 3) + varint(value)


def bytes_field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def masked(data):
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def tfrecord(*examples):
    lengths = [struct.pack("<Q", len(example)) for example in examples]
    return b"".join(n + masked(n) + example + masked(example) for n, example in zip(lengths, examples))


def example(image, label, text=None, packed=True):
    """An Example, of which `label` are the labels; None has it hold none."""
    numbers = label or ()
    ints = (
        bytes_field(1, b"".join(map(varint, numbers)))
        if packed
        else b"".join(number_field(1, n) for n in numbers)
    )
    features = {
        b"image/encoded": bytes_field(1, bytes_field(1, image)),
        b"image/height": bytes_field(3, bytes_field(1, varint(6))),
        b"image/ratio": bytes_field(2, bytes_field(1, struct.pack("<f", 1.5))),
        b"image/class/label": bytes_field(3, ints),
    }
    if label is None:
        del features[b"image/class/label"]
    if text:
        features[b"image/class/text"] = bytes_field(1, bytes_field(1, text))
    entries = (bytes_field(1, bytes_field(1, key) + bytes_field(2, value)) for key, value in features.items())
    return bytes_field(1, b"".join(entries))


def datum(data, label, encoded, shape=(3, 6, 5)):
    sizes = b"".join(number_field(1 + at, side) for at, side in enumerate(shape))
    return sizes + bytes_field(4, data) + number_field(5, label) + (number_field(7, 1) if encoded else b"")


def write_lmdb(path, values):
    with lmdb.open(str(path), map_size=1 << 20) as database, database.begin(write=True) as transaction:
        for number, value in enumerate(values):
            transaction.put(b"%08d_x.jpg" % number, value)
    return path
