"""Pictures of kinds that not every OpenCV reads: GIF, AVIF and icons, decoded by Pillow, which GluonCV brings.

For what is predicted, and for the packer, which stores them as PNG: what is trained on has to be read alike on every
machine (`decoding.py`). Of an animation the first picture is taken; transparent parts show white, and what EXIF says is
turned is put upright.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from mxtrain.data.decode.jpeg import MAX_PIXELS, BadPicture, Pixels

_FORMATS = {"GIF": ((0, b"GIF8"),), "AVIF": ((4, b"ftypavif"), (4, b"ftypavis")), "ICO": ((0, b"\0\0\1\0"),)}


def is_one(payload: Any) -> bool:
    """Return whether these are the bytes of such a picture."""
    return isinstance(payload, bytes) and kind_of(payload) is not None


def kind_of(payload: bytes) -> str | None:
    """Return the name of the kind that these bytes begin as, one of GIF, AVIF and ICO; None for all else."""
    begun = (
        format_name
        for format_name, magics in _FORMATS.items()
        for at, magic in magics
        if payload.startswith(magic, at)
    )
    return next(begun, None)


def is_animated(payload: bytes) -> bool:
    """Return whether such a picture holds several that follow each other; False too where it is damaged."""
    try:
        from PIL import Image

        with Image.open(io.BytesIO(payload), formats=list(_FORMATS)) as opened:
            return bool(getattr(opened, "is_animated", False))
    except Exception:  # as in `decode`, which says what is wrong
        return False


def decode(payload: bytes) -> Pixels:
    """Return the pixels, uint8 (height, width, 3); BadPicture where it is damaged."""
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ImportError:
        raise BadPicture("only Pillow reads this kind: pip install pillow, or convert it to PNG") from None
    try:
        with Image.open(io.BytesIO(payload), formats=list(_FORMATS)) as opened:
            if opened.width * opened.height > MAX_PIXELS:
                raise BadPicture(
                    f"it announces {opened.width} x {opened.height} pixels, more than {MAX_PIXELS}"
                )
            picture = ImageOps.exif_transpose(opened).convert("RGBA")
    except BadPicture:
        raise
    except UnidentifiedImageError:
        raise BadPicture("it is damaged: Pillow cannot decode its beginning") from None
    except Exception as error:  # Pillow's decoders raise whatever a damaged file makes them stumble over
        raise BadPicture(f"Pillow cannot decode it ({' '.join(str(error).split())})") from None
    white = Image.new("RGBA", picture.size, "white")
    return np.asarray(Image.alpha_composite(white, picture).convert("RGB"))
