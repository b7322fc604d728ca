"""Detections as COCO's results, as CSV, and drawn on their pictures."""

from __future__ import annotations

import csv
import functools
import io
import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from mxtrain.core.errors import DataError
from mxtrain.data.boxes import box_drawing
from mxtrain.inference import box_outputs, output_files, picture_files, row_formats
from mxtrain.inference.row_formats import RowFormat

NAMES = ["cat", "=dog"]
TWO = {
    "detections": [
        {"class": "=dog", "score": 0.9, "box": [10.5, 20.0, 30.5, 50.0]},
        {"class": "cat", "score": 0.25, "box": [0.0, 0.0, 5.0, 5.0]},
    ]
}
NONE: dict[str, Any] = {"detections": []}


def written(format_name: str, out: Path, *answers: tuple[str, Any]) -> str:
    row = row_formats.row_of(format_name, RowFormat("image", str, NAMES))
    with output_files.opened(out, format_name, row) as write:
        for name, shown in answers:
            write(name, shown)
    return out.read_text()


@pytest.mark.parametrize("answers", [[], [NONE], [NONE, TWO], [TWO, NONE, TWO, NONE]])
def test_results_of_coco_are_one_array(answers: list[Any], tmp_path: Path) -> None:
    numbered = [(f"photos/{number:012d}.jpg", shown) for number, shown in enumerate(answers)]
    rows = json.loads(written("coco", tmp_path / "found.json", *numbered))
    assert len(rows) == sum(len(shown["detections"]) for shown in answers)
    if rows:
        place = answers.index(TWO)
        assert rows[0] == {
            **{"image_id": place, "category_id": 2, "category": "=dog"},
            **{"bbox": [10.5, 20.0, 20.0, 30.0], "score": 0.9},
        }


@pytest.mark.parametrize(
    "name, number",
    [
        ("000000000139.jpg", 139),
        ("a/b/7.png", 7),
        ("val.rec:42", 42),
        ("shelf.jpg", "shelf.jpg"),
        ("2nd.jpg", "2nd.jpg"),
        ("0.jpg", 0),
    ],
)
def test_a_picture_is_called_by_the_number_in_its_name(name: str, number: object) -> None:
    assert box_outputs.image_id(name) == number


def test_a_row_of_csv_is_a_detection(tmp_path: Path) -> None:
    text = written("csv", tmp_path / "found.csv", ("a.jpg", NONE), ("b.jpg", TWO))
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["image"] for row in rows] == ["a.jpg", "b.jpg", "b.jpg"]
    assert rows[0]["class"] == "" and rows[1]["class"] == "'=dog"
    assert [rows[2][key] for key in ("score", "x1", "y1", "x2", "y2")] == ["0.25", "0.0", "0.0", "5.0", "5.0"]


def test_boxes_are_drawn_where_they_are(tmp_path: Path) -> None:
    picture = np.zeros((80, 100, 3), np.uint8)
    encoded = cv2.imencode(".png", picture)[1].tobytes()
    draw = functools.partial(box_outputs.drawn, class_names=NAMES)
    pictures = picture_files.DrawnPictures(tmp_path / "drawn", draw)
    for name in ("a/one.jpg", "b/one.jpg", "../odd name"):
        pictures.write(name, picture_files.pixels_of(name, encoded), TWO)
    assert sorted(path.name for path in (tmp_path / "drawn").iterdir()) == [
        *("odd_name.jpg", "one.jpg-2.jpg", "one.jpg.jpg")
    ]
    drawn = cv2.imread(str(tmp_path / "drawn" / "one.jpg.jpg"))[:, :, ::-1].astype(int)
    assert drawn.shape == picture.shape
    for y, x in ((49, 20), (40, 10), (40, 29)):  # lines
        assert drawn[y, x].max() > 100 and drawn[y, x].argmax() == np.argmax(box_drawing.colour_of(1))
    assert drawn[40, 20].max() < 40 and drawn[60, 60].max() < 40  # inside, and far away
    with pytest.raises(DataError, match=r"broken\.jpg: "):
        picture_files.pixels_of("broken.jpg", b"no picture")


def test_what_is_not_finite_is_not_drawn() -> None:
    picture = np.zeros((20, 20, 3), np.uint8)
    assert not box_drawing.drawn(picture, np.array([[np.nan, 0, 5, 5]]), [0], ["x"]).any()
