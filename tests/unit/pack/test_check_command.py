"""`check` as a command: what it prints and how it ends; what it finds is test_check.py's part."""

from __future__ import annotations

import json

import cv2
import numpy as np
import pytest

from mxtrain.data.records import recordio
from mxtrain.data.records.record_file import classes_path, index_path
from mxtrain.data.records.record_writer import RecordWriter
from tests.support.data import pack_command


@pytest.fixture
def good(tmp_path):
    with RecordWriter(tmp_path / "good.rec") as writer:
        for place in range(6):
            pixels = np.random.default_rng(place).integers(0, 256, (20, 30, 3), np.uint8)
            writer.write(10 + place, float(place % 2), cv2.imencode(".png", pixels)[1].tobytes())
    classes_path(tmp_path / "good.rec").write_bytes(recordio.format_classes(["ape", "bee"], [3, 3]))
    return tmp_path / "good.rec"


def damage(path):
    data = bytearray(path.read_bytes())
    data[50] ^= 1
    path.write_bytes(data)


def run(*arguments):
    return pack_command.in_this_process("check", *arguments)


def test_the_command_says_all_is_well(good, tmp_path):
    done = run(good, "--plot", tmp_path / "balance.png")
    assert (done.returncode, done.stderr) == (0, "")
    assert "nothing wrong was found" in done.stdout
    assert cv2.imread(str(tmp_path / "balance.png")).std() > 10


def test_a_forgotten_name_of_the_picture_costs_no_file(good, tmp_path):
    before = good.read_bytes()
    done = run("--plot", good, tmp_path / "other.rec")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert f"--plot: '{good}' does not end in .png" in done.stderr
    assert good.read_bytes() == before


def test_the_command_ends_with_3_and_one_line(good):
    damage(good)
    done = pack_command.run("-m", "tools.im2rec_wrapper", "check", good)  # as a user starts it
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1
    assert str(good) in done.stderr
    assert "WRONG: 1 x checksum" in done.stdout


def test_json_has_everything(good):
    index_path(good).unlink()
    damage(good)
    done = run(good, "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["num_wrong"], report["num_told"]) == (3, 1, 1)
    assert report["files"][0]["classes"][1] == {"label": 1, "name": "bee", "num_images": 3}
    wrong = next(finding for finding in report["findings"] if finding["wrong"])
    assert wrong["records"] == [{"path": str(good), "number": 0, "key": 10, "byte": 0}]


def test_notes_count_only_when_strict(good):
    index_path(good).unlink()
    assert run(good).returncode == 0
    assert run(good, "--strict").returncode == 3
