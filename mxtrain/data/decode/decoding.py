"""Decoding of pictures: from encoded bytes to upright RGB pixels, uint8 (height, width, 3), or BadPicture.

Owns the one way in which pictures are read, for packing, training, `evaluate`, `predict`, `show` and `check`. JPEG is
decoded by `jpeg.py`, everything else (PNG, WebP, BMP, TIFF) by OpenCV. Gray becomes RGB, 16 bits become 8, transparent
parts show white, pictures that EXIF says are turned or mirrored are put upright (`orientation.py`), and of several
pages the first is taken.
"""

from __future__ import annotations

import struct
from typing import Any, Callable, NamedTuple, Union

import numpy as np
import numpy.typing as npt

from mxtrain.config.values.sizes import Size
from mxtrain.core.opencv import cv2
from mxtrain.data.decode import jpeg, orientation, tiff
from mxtrain.data.decode.jpeg import BadPicture, Box, Pixels
from mxtrain.data.decode.resizing import resize


class CachedPicture(NamedTuple):
    """A picture that `decode_all_scales` has decoded earlier, its pixels still to be fetched."""

    height: int  # as stored, not turned upright
    width: int
    orientation: int
    smallest: int  # the largest scale factor that there are pixels for
    at_scale: Callable[[int], Pixels]


Payload = Union[jpeg.Payload, Pixels, CachedPicture]  # pixels are upright

StoredPixels = npt.NDArray[Any]  # as OpenCV decodes them: any type, any number of channels, BGR

_PIXELS_PER_BYTE = 8 * 1032  # at one bit a pixel and deflate's best

# How GIF, AVIF and JPEG XL begin, from the byte on. Only newer OpenCVs read them: a .rec must train with all.
_OF_NEWER_OPENCV = ((0, b"GIF8"), (4, b"ftypavi"), (0, b"\xff\x0a"), (4, b"JXL "))


def decode(payload: Payload) -> Pixels:
    """Return all pixels of a picture, at full scale."""
    if isinstance(payload, np.ndarray):
        return payload
    if isinstance(payload, CachedPicture):
        return orientation.upright(payload.at_scale(1), payload.orientation)
    pixels = jpeg.decode(payload) if jpeg.is_jpeg(payload) else _decode_other(payload)
    return orientation.upright(pixels, orientation.orientation_of(payload))


def decode_crop(payload: Payload, choose: Callable[[int, int], Box], target: int) -> Pixels:
    """Return the pixels of a box that `choose(height, width)` picks from the upright picture.

    A box much larger than `target` pixels a side may come at a lower scale, but never below `target`.
    """
    return _upright_crop(payload, choose, target, stretched=None)


def decode_resized(payload: Payload, choose: Callable[[int, int], Box], size: Size) -> Pixels:
    """Return what `decode_crop` does for a target of the longer side of `size`, stretched to `size`."""
    return resize(_upright_crop(payload, choose, max(size), stretched=size), *size)


def _upright_crop(
    payload: Payload, choose: Callable[[int, int], Box], target: int, stretched: Size | None
) -> Pixels:
    """Return the box, which may be `stretched` to this size already."""
    if isinstance(payload, np.ndarray):
        return jpeg.cut(payload, choose(*payload.shape[:2]))
    turn = payload.orientation if isinstance(payload, CachedPicture) else orientation.orientation_of(payload)
    if turn == orientation.UPRIGHT:
        return _stored_crop(payload, choose, target, stretched)

    def choose_stored(height: int, width: int) -> Box:
        box = choose(*orientation.upright_size(height, width, turn))
        return orientation.stored(box, height, width, turn)

    return orientation.upright(_stored_crop(payload, choose_stored, target, stretched=None), turn)


def decode_all_scales(payload: jpeg.Payload | Pixels, target: int) -> tuple[int, list[Pixels]]:
    """Return the orientation and all pixels as stored: at full scale, and at those that crops of `target` may need."""
    if isinstance(payload, np.ndarray):
        return orientation.UPRIGHT, [payload]
    turn = orientation.orientation_of(payload)
    if not jpeg.is_jpeg(payload):
        return turn, [_decode_other(payload)]
    whole = jpeg.decode(payload)
    smallest = jpeg.scale_of(Box(0, 0, *whole.shape[:2]), target)
    return turn, [whole, *(jpeg.decode(payload, scale) for scale in jpeg.SCALES[1:] if scale <= smallest)]


def _stored_crop(
    payload: jpeg.Payload | CachedPicture,
    choose: Callable[[int, int], Box],
    target: int,
    stretched: Size | None,
) -> Pixels:
    if isinstance(payload, CachedPicture):
        box = choose(payload.height, payload.width)
        scale = min(jpeg.scale_of(box, target), payload.smallest)
        return jpeg.cut(payload.at_scale(scale), jpeg.scaled(box, scale))
    if jpeg.is_jpeg(payload):
        return jpeg.decode_crop(payload, choose, target, stretched)
    image = _decode_other(payload)
    return jpeg.cut(image, choose(*image.shape[:2]))


def _decode_other(payload: jpeg.Payload) -> Pixels:
    if not len(payload):
        raise BadPicture("it holds no bytes")
    _refuse_oversized_png(payload)
    try:
        pairs = tiff.gray_with_alpha(payload)
        if pairs is not None:
            pairs = orientation.upright(pairs, tiff.orientation(payload))
            return _on_white(pairs[:, :, [0, 0, 0, 1]], tiff.alpha(payload))
        start = bytes(payload[:16])
        is_read = not any(start[at:].startswith(magic) for at, magic in _OF_NEWER_OPENCV)
        image = cv2.imdecode(np.frombuffer(payload, np.uint8), cv2.IMREAD_UNCHANGED) if is_read else None
    except cv2.error as error:
        if error.code == cv2.Error.StsNoMem:
            raise MemoryError(error.err) from None
        raise BadPicture(f"OpenCV cannot decode it ({error.err})") from None
    if image is None:
        jpeg.check_memory()
        raise BadPicture(
            f"it is damaged, or not a picture that every OpenCV reads (it starts with {start[:8]!r})"
        )
    hidden = _hidden_gray(payload) if image.ndim == 2 else None
    alpha = tiff.decoded_alpha(payload, image.dtype) if tiff.is_tiff(payload) else tiff.PLAIN
    pixels = _to_rgb(_to_8_bits(image), alpha)
    if hidden is not None:
        pixels[image == hidden] = 255
    return pixels


def _refuse_oversized_png(payload: jpeg.Payload) -> None:
    """Raise BadPicture for sizes that the bytes cannot hold: OpenCV would allocate and clear up to 2 GiB first."""
    for chunk_type, start, end in orientation.png_chunks(payload):
        if end > len(payload):
            raise BadPicture(
                f"its PNG chunk {chunk_type!r} claims {end - start} bytes, more than the picture has left"
            )
        if chunk_type == b"IHDR" and end - start >= 8:
            width, height = struct.unpack_from(">II", payload, start)
            if not width * height:
                raise BadPicture(f"it claims {width} x {height} pixels, so it has none")
            if width * height > _PIXELS_PER_BYTE * len(payload):
                raise BadPicture(f"it claims {width} x {height} pixels, more than its bytes can hold")


def _hidden_gray(payload: jpeg.Payload) -> int | None:
    """Return the gray level that a PNG declares transparent, as decoded, or None; OpenCV ignores it."""
    depth, colour = 0, -1
    for chunk_type, start, end in orientation.png_chunks(payload):
        if chunk_type == b"IHDR" and end - start == 13:
            depth, colour = payload[start + 8], payload[start + 9]
        elif chunk_type == b"tRNS" and end - start == 2 and colour == 0:
            level = int.from_bytes(payload[start:end], "big") % (1 << depth)
            return level if depth == 16 else level * 255 // ((1 << depth) - 1)
    return None


def _to_8_bits(image: StoredPixels) -> StoredPixels:
    if image.dtype == np.uint16:
        return cv2.convertScaleAbs(image, alpha=1 / 257)
    if image.dtype != np.uint8:
        raise BadPicture(f"its pixels are {image.dtype}; convert it to 8 or 16 bits")
    return image


def _to_rgb(image: StoredPixels, alpha: int) -> Pixels:
    if image.ndim == 2:
        return cv2.cvtColor(image, cv2.COLOR_GRAY2RGB)
    if image.shape[2] == 3:
        return cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
    if image.shape[2] == 4:
        return _on_white(cv2.cvtColor(image, cv2.COLOR_BGRA2RGBA), alpha)
    raise BadPicture(f"it has {image.shape[2]} channels; convert it to gray, RGB or RGBA")


def _on_white(image: StoredPixels, alpha_type: int) -> Pixels:
    if alpha_type == tiff.OTHER:
        return np.ascontiguousarray(image[:, :, :3])
    colour, alpha = image[:, :, :3].astype(np.uint16), image[:, :, 3:].astype(np.uint16)
    multiplied = (colour * alpha + 127) // 255 if alpha_type == tiff.PLAIN else colour
    shown: Pixels = np.minimum(multiplied + (255 - alpha), 255).astype(np.uint8)
    return shown
