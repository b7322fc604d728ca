"""Detections as others read them: rows of COCO's results, rows of CSV, and pictures with boxes drawn on.

Owns what becomes of `detections` in an answer, each with class, score and box.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from mxtrain.core import durable
from mxtrain.core.errors import DataError
from mxtrain.core.opencv import cv2
from mxtrain.data.boxes import box_drawing
from mxtrain.data.decode import decoding, pillow_decode

_NUMBERED = re.compile(r"(?:^|[/\\])0*(\d+)\.\w+$|\.rec:(\d+)$")
QUALITY = 92


def image_id(name: str) -> int | str:
    """Return COCO's id of a picture: the number that its file is called by, or its key in a .rec; else its name."""
    match = _NUMBERED.search(name)
    return name if match is None else int(match[1] or match[2])


def coco_rows(name: str, shown: Mapping[str, Any], class_names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the detections in a picture as COCO's results; a category is the class's number, counted from 1."""
    rows = []
    for each in shown["detections"]:
        x1, y1, x2, y2 = each["box"]
        rows.append(
            {
                "image_id": image_id(name),
                "category_id": class_names.index(each["class"]) + 1,
                "category": each["class"],
                "bbox": [x1, y1, x2 - x1, y2 - y1],
                "score": each["score"],
            }
        )
    return rows


def csv_rows(shown: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the cells of each detection in a picture; one row without any where it has none."""
    rows = [
        {"class": each["class"], "score": each["score"], **dict(zip(("x1", "y1", "x2", "y2"), each["box"]))}
        for each in shown["detections"]
    ]
    return rows or [dict.fromkeys(("class", "score", "x1", "y1", "x2", "y2"), "")]


class DrawnPictures:
    """A folder of pictures with their detections drawn on, called as their files."""

    def __init__(self, folder: Path, class_names: Sequence[str]):
        self._folder, self._class_names = folder, list(class_names)
        self._names: set[str] = set()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise durable.cannot_write(folder, error) from None

    def write(self, name: str, read: Callable[[], bytes], shown: Mapping[str, Any]) -> None:
        """Write the picture that `read` gives, with what was detected in it."""
        every = shown["detections"]
        pixels = box_drawing.drawn(
            _pixels(name, read()),
            np.array([each["box"] for each in every]).reshape(-1, 4),
            [self._class_names.index(each["class"]) for each in every],
            [f"{each['class']} {each['score']:.2f}" for each in every],
        )
        _, encoded = cv2.imencode(".jpg", pixels[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
        with durable.whole_file(self._folder / self._free_name(name)) as file:
            file.write(encoded.tobytes())

    def _free_name(self, name: str) -> str:
        stem = re.sub(r"[^\w.-]+", "_", Path(name).name)[:100]
        number = 2
        free = stem
        while free in self._names:
            free, number = f"{stem}-{number}", number + 1
        self._names.add(free)
        return f"{free}.jpg"


def _pixels(name: str, payload: bytes) -> Any:
    try:
        return pillow_decode.decode(payload) if pillow_decode.is_one(payload) else decoding.decode(payload)
    except ValueError as error:
        raise DataError(f"{name}: {error}") from None
