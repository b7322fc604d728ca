from __future__ import annotations

import subprocess
import sys

import cv2
import numpy as np
import pytest

from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.records.record_file import classes_path, open_records
from mxtrain.data.records.record_writer import RecordWriter
from tools.im2rec_wrapper.show import caption, show

RED, BLUE = (0, 0, 250), (250, 0, 0)  # as OpenCV has them


@pytest.fixture
def rec(tmp_path):
    """12 red squares of class `warm`, 8 blue of `cold`."""
    with RecordWriter(tmp_path / "a.rec") as writer:
        for key in range(20):
            pixels = np.full((30, 30, 3), RED if key < 12 else BLUE, np.uint8)
            writer.write(key, float(key >= 12), cv2.imencode(".png", pixels)[1].tobytes())
    classes_path(tmp_path / "a.rec").write_text("warm\t12\ncold\t8\n")
    return tmp_path / "a.rec"


def num_squares(path, colour):
    matches = (cv2.imread(str(path)) == colour).all(2).astype(np.uint8)
    return cv2.connectedComponents(matches)[0] - 1


def test_every_picture_is_on_the_sheet(rec, tmp_path):
    out = tmp_path / "sheet.png"
    assert show(rec, out, num=50, class_name=None, seed=0) == 20
    assert (num_squares(out, RED), num_squares(out, BLUE)) == (12, 8)


def several(folder, labels):
    with RecordWriter(folder / "a.rec") as writer:
        for key, label in enumerate(labels):
            pixels = np.full((30, 30, 3), RED if label[1] == 1 else BLUE, np.uint8)
            writer.write(key, np.array(label, np.float32), cv2.imencode(".png", pixels)[1].tobytes())
    classes_path(folder / "a.rec").write_text("left\nright\nup\n")
    return folder / "a.rec"


def test_one_of_several_labels(tmp_path):
    rec, out = several(tmp_path, [(1, 0, 0), (1, 1, 0), (0, 1, 0), (0, -1, 0)]), tmp_path / "sheet.png"
    assert show(rec, out, num=5, class_name="right", seed=0) == 2
    assert (num_squares(out, RED), num_squares(out, BLUE)) == (2, 0)
    records = open_records(rec)
    captions = [caption(records, records.read(position).label) for position in range(4)]
    assert captions == ["left", "left right", "right", ""]


def test_numbers_to_predict_are_shown_as_such(tmp_path):
    rec = several(tmp_path, [(1, 0, 0), (1, 2, 0.5)])
    records = open_records(rec)
    assert caption(records, records.read(1).label) == "left 1, right 2, up 0.5"
    with pytest.raises(DataError, match="no picture of class 'left'"):
        show(rec, tmp_path / "sheet.png", num=5, class_name="left", seed=0)


@pytest.mark.parametrize("name", ["cold", "1"])
def test_one_class(rec, tmp_path, name):
    out = tmp_path / "sheet.png"
    assert show(rec, out, num=5, class_name=name, seed=0) == 5
    assert (num_squares(out, RED), num_squares(out, BLUE)) == (0, 5)


def test_the_seed_decides(rec, tmp_path):
    sheets = []
    for seed in (1, 1, 2):
        show(rec, tmp_path / "sheet.png", num=6, class_name=None, seed=seed)
        sheets.append((tmp_path / "sheet.png").read_bytes())
    assert sheets[0] == sheets[1] != sheets[2]


def test_a_damaged_picture_is_a_grey_tile_among_the_others(rec, tmp_path):
    data = bytearray(rec.read_bytes())
    data[60] ^= 1
    rec.write_bytes(data)
    out = tmp_path / "sheet.png"
    assert show(rec, out, num=50, class_name=None, seed=0) == 20
    assert (num_squares(out, RED), num_squares(out, BLUE)) == (11, 8)


def test_an_unknown_class_names_the_near_one(rec, tmp_path):
    with pytest.raises(UsageError, match="did you mean 'warm'"):
        show(rec, tmp_path / "sheet.png", num=5, class_name="warn", seed=0)
    with pytest.raises(DataError, match="no picture of class '7'"):
        show(rec, tmp_path / "sheet.png", num=5, class_name="7", seed=0)


def test_text_is_refused(rec, tmp_path):
    (tmp_path / "a.tokens.json").write_text("{}")
    with pytest.raises(UsageError, match="holds token ids"):
        show(rec, tmp_path / "sheet.png", num=5, class_name=None, seed=0)


@pytest.mark.parametrize("out", ["a.rec", "sheet", "sheet.jpg", ".png"])
def test_a_sheet_is_a_png_and_nothing_else_is_written_over(rec, out):
    before = rec.read_bytes()
    command = [
        sys.executable,
        "-m",
        "tools.im2rec_wrapper",
        "show",
        str(rec),
        "--out",
        str(rec.with_name(out)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert "--out" in done.stderr and "does not end in .png" in done.stderr
    assert rec.read_bytes() == before
    assert not rec.with_name("sheet").exists()


def test_the_command_writes_beside_the_file(rec):
    command = [sys.executable, "-m", "tools.im2rec_wrapper", "show", str(rec), "--num", "9"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"wrote {rec.with_suffix('.png')}: 9 pictures\n"
    assert cv2.imread(str(rec.with_suffix(".png"))).shape == (2 * 192 + 10, 8 * 154 + 10, 3)
