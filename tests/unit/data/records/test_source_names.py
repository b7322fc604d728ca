"""The sources of records: stored beside a .rec, and named in every message about a record."""

from __future__ import annotations

import os

import cv2
import numpy as np
import pytest

from mxtrain.core.errors import DataError
from mxtrain.data.packing.options import Options
from mxtrain.data.packing.pack import pack
from mxtrain.data.records.record_file import index_path, open_records
from mxtrain.data.records.record_writer import rebuild_index
from mxtrain.data.records.source_names import SourceNames, line, sources_path
from tools.im2rec_wrapper.checking.check import check

ODD = "größe\t\u2028" + os.fsdecode(b"\xff")


@pytest.fixture
def images(tmp_path):
    for number in range(12):
        path = tmp_path / "images" / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 256, (8, 8 + number, 3), np.uint8)
        path.write_bytes(cv2.imencode(".png", pixels)[1].tobytes())
    (tmp_path / "images" / "a" / "0.png").rename(tmp_path / "images" / "a" / f"{ODD}.png")
    return tmp_path / "images"


@pytest.fixture
def rec(images, tmp_path):
    (images / "b" / "bad.png").write_bytes(b"bad")
    pack(images, tmp_path / "data.rec", Options(skip_bad=True))
    return tmp_path / "data.rec"


def name_of_width(width):
    """Each picture has another width."""
    return f"{'ab'[width % 2]}/{width - 8}.png" if width > 8 else "a/größe\\t\\u2028\\udcff.png"


def width_of(payload):
    return cv2.imdecode(np.frombuffer(payload, np.uint8), cv2.IMREAD_COLOR).shape[1]


def assert_named(path):
    records = open_records(path)
    names = records.source_names()
    widths = {key: width_of(records.read(place).payload) for place, key in enumerate(records.keys.tolist())}
    assert {key: names.of(key) for key in widths} == {
        key: name_of_width(width) for key, width in widths.items()
    }
    assert names.of(len(records)) is None


def damage(path, number):
    at = int(open_records(path)._offsets[number]) + 60
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_each_record_has_the_name_of_its_source(rec):
    assert_named(rec)
    assert check([rec]).findings == []


def test_shards_and_what_is_packed_from_them_have_them_too(images, tmp_path):
    pack(images, tmp_path / "parts", Options(num_shards=3, train_share=0.7))
    parts = sorted((tmp_path / "parts").glob("train*.rec"))
    assert len(parts) == 3
    for part in parts:
        assert_named(part)
    for part in (tmp_path / "parts").glob("val*"):
        part.unlink()
    pack(tmp_path / "parts", tmp_path / "one.rec", Options(seed=1))
    assert_named(tmp_path / "one.rec")
    sources_path(parts[0]).unlink()
    pack(parts[0], tmp_path / "two.rec", Options())
    assert {open_records(tmp_path / "two.rec").source_names().of(key) for key in range(3)} == {
        f"{parts[0].name}:{key}" for key in range(3)
    }


def test_text_is_named_by_its_line(tmp_path):
    (tmp_path / "a.txt").write_text("one\n\ntwo\n\n\nthree\n")
    pack(tmp_path / "a.txt", tmp_path / "a.rec", Options(shuffle=False))
    names = open_records(tmp_path / "a.rec").source_names()
    assert [names.of(key) for key in range(3)] == ["a.txt:1", "a.txt:3", "a.txt:6"]


def test_check_and_the_loader_name_the_file_of_a_damaged_record(rec):
    name = open_records(rec).source_names().of(3)
    damage(rec, 3)
    (finding,) = check([rec]).findings
    assert f"(key 3, byte {finding.locations[0].byte}, from {name})" in finding.text
    assert finding.as_json()["records"][0]["source"] == name
    records = open_records(rec)
    with pytest.raises(DataError) as refusal:
        records.read(3)
    assert f", from {name})" in str(refusal.value)
    assert f"(key 3, from {name})" in records.where(3)


def test_names_outlive_a_lost_index_and_a_cut_file(rec):
    index_path(rec).unlink()
    assert_named(rec)
    rebuild_index(rec)
    assert_named(rec)
    index_path(rec).write_text("0\t0\n")
    assert [finding.fault for finding in check([rec]).findings] == ["index"]
    rebuild_index(rec)
    name = open_records(rec).source_names().of(2)
    damage(rec, 2)
    os.truncate(rec, rec.stat().st_size - 8)
    found = {finding.fault: finding.text for finding in check([rec]).findings}
    assert "sources" not in found and f"from {name})" in found["checksum"]


@pytest.mark.parametrize("text", [b"", b"0\ta.png\n", b"# of the .idx 00000000\n0\ta.png\n", b"\xff" * 100])
def test_the_names_of_another_pack_are_not_given(rec, text):
    sources_path(rec).write_bytes(text)
    (finding,) = check([rec]).findings
    assert (finding.fault, finding.is_wrong) == ("sources", False)
    assert "another pack" in finding.text
    assert open_records(rec).where(0) == f"{rec}: record 0 (key 0)"


def test_a_rec_of_before_has_no_names(rec):
    sources_path(rec).unlink()
    assert check([rec]).findings == []
    assert open_records(rec).where(0) == f"{rec}: record 0 (key 0)"


def test_a_pipe_of_that_name_is_not_waited_for(rec):
    sources_path(rec).unlink()
    os.mkfifo(sources_path(rec))
    (finding,) = check([rec]).findings
    assert "a named pipe, not a file" in finding.text
    assert open_records(rec).where(0) == f"{rec}: record 0 (key 0)"


def test_keys_that_are_no_line_numbers_are_found_too():
    names = SourceNames(b"# first\n" + b"".join(line(key, f"{key}.png") for key in (3, 7, 33, 70, 103)))
    assert [names.of(key) for key in (3, 7, 33, 70, 103)] == ["3.png", "7.png", "33.png", "70.png", "103.png"]
    assert [names.of(key) for key in (0, 10, 1000)] == [None] * 3
