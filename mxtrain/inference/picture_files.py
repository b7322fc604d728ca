"""Folders of pictures that a prediction writes: their names, and the pictures that they are drawn on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Callable, Mapping

from mxtrain.core import durable
from mxtrain.core.errors import DataError
from mxtrain.core.opencv import cv2
from mxtrain.data.decode import decoding, pillow_decode
from mxtrain.data.decode.jpeg import Pixels

_NUMBERED = re.compile(r"(?:^|[/\\])0*(\d+)\.\w+$|\.rec:(\d+)$")
QUALITY = 92

Drawing = Callable[[Pixels, Mapping[str, Any]], Pixels]  # from a picture and what is shown of it


def image_id(name: str) -> int | str:
    """Return COCO's id of a picture: the number that its file is called by, or its key in a .rec; else its name."""
    match = _NUMBERED.search(name)
    return name if match is None else int(match[1] or match[2])


def made(folder: Path) -> Path:
    """Return a folder that is there now."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise durable.cannot_write(folder, error) from None
    return folder


def pixels_of(name: str, payload: bytes) -> Pixels:
    """Return the pixels of an encoded picture; DataError, which begins with its name, where it is none."""
    try:
        return pillow_decode.decode(payload) if pillow_decode.is_one(payload) else decoding.decode(payload)
    except ValueError as error:
        raise DataError(f"{name}: {error}") from None


class FileNames:
    """Names of files, made of the names of pictures, none of them twice."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def free(self, name: str, suffix: str) -> str:
        """Return a name that no other picture has."""
        stem = re.sub(r"[^\w.-]+", "_", Path(name).name)[:100]
        number = 2
        free = stem
        while free in self._taken:
            free, number = f"{stem}-{number}", number + 1
        self._taken.add(free)
        return f"{free}{suffix}"


class DrawnPictures:
    """A folder of pictures with what is shown of them drawn on, called as their files."""

    def __init__(self, folder: Path, draw: Drawing):
        self._folder, self._draw = made(folder), draw
        self._names = FileNames()

    def write(self, name: str, pixels: Pixels, shown: Mapping[str, Any]) -> None:
        """Write a picture with what is shown of it."""
        drawn = self._draw(pixels, shown)
        _, encoded = cv2.imencode(".jpg", drawn[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
        with durable.whole_file(self._folder / self._names.free(name, ".jpg")) as file:
            file.write(encoded.tobytes())
