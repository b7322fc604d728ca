"""Detections as others read them: rows of COCO's results, rows of CSV, and pictures with boxes drawn on.

Owns what becomes of `detections` in an answer, each with class, score and box.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np

from mxtrain.data.boxes import box_drawing
from mxtrain.data.decode.jpeg import Pixels
from mxtrain.inference.picture_files import image_id


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


def drawn(pixels: Pixels, shown: Mapping[str, Any], class_names: Sequence[str]) -> Pixels:
    """Return a picture with what was detected in it."""
    every = shown["detections"]
    return box_drawing.drawn(
        pixels,
        np.array([each["box"] for each in every]).reshape(-1, 4),
        [class_names.index(each["class"]) for each in every],
        [f"{each['class']} {each['score']:.2f}" for each in every],
    )
