"""JPEGs of every subsampling, whole and put together by hand."""

from __future__ import annotations

import io
import struct
from typing import Any

import cv2
import numpy as np
from PIL import Image

SAMPLINGS = {"444": 0, "422": 1, "420": 2}  # PIL's numbers


def picture(rng: np.random.Generator, height: int, width: int, noise: float) -> Any:
    """Smooth colours with noise on top."""
    small = rng.integers(0, 256, (4, 5, 3), dtype=np.uint8)
    smooth = cv2.resize(small, (width, height), interpolation=cv2.INTER_CUBIC).astype(np.float64)
    return np.clip(smooth + rng.normal(0, noise, smooth.shape), 0, 255).astype(np.uint8)


def encoded(image: Any, quality: int, sampling: str, interval: int = 0, **options: Any) -> bytes:
    """A JPEG with a restart marker after every `interval` units."""
    if not interval:
        file = io.BytesIO()
        Image.fromarray(image).save(file, "JPEG", quality=quality, subsampling=SAMPLINGS[sampling], **options)
        return file.getvalue()
    factor = getattr(cv2, f"IMWRITE_JPEG_SAMPLING_FACTOR_{sampling}")
    settings = [cv2.IMWRITE_JPEG_QUALITY, quality, cv2.IMWRITE_JPEG_SAMPLING_FACTOR, factor]
    settings += [cv2.IMWRITE_JPEG_RST_INTERVAL, interval]
    return bytes(cv2.imencode(".jpg", image[:, :, ::-1], settings)[1].tobytes())


def segment(marker: int, data: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data


def codes(symbols_of_length: dict[int, bytes]) -> bytes:
    """A Huffman table as files hold it."""
    counts = bytes(len(symbols_of_length.get(length, b"")) for length in range(1, 17))
    return counts + b"".join(symbols for _, symbols in sorted(symbols_of_length.items()))


def assembled(
    bits: str,
    dc: dict[int, bytes],
    ac: dict[int, bytes],
    height: int = 16,
    width: int = 16,
    versions: tuple[int, ...] = (1,),
) -> bytes:
    """A 4:2:0 JPEG that no encoder makes."""
    scan = int(bits + "1" * (-len(bits) % 8), 2).to_bytes(-(-len(bits) // 8), "big")
    jfif = [segment(0xE0, b"JFIF\0" + bytes([version, 1, 0, 0, 1, 0, 1, 0, 0])) for version in versions]
    components = bytes([1, 0x22, 0, 2, 0x11, 0, 3, 0x11, 0])
    return b"".join(
        [
            b"\xff\xd8",
            *jfif,
            segment(0xDB, b"\0" + b"\1" * 64),
            segment(0xC0, struct.pack(">BHHB", 8, height, width, 3) + components),
            segment(0xC4, b"\x00" + codes(dc) + b"\x10" + codes(ac)),
            segment(0xDA, bytes([3, 1, 0, 2, 0, 3, 0, 0, 63, 0])),
            scan.replace(b"\xff", b"\xff\0"),
            b"\xff\xd9",
        ]
    )
