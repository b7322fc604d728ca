"""Sources that are databases and archives, as their own libraries write them."""

from __future__ import annotations

import io
import json
import tarfile

import cv2
import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.records.record_file import classes_path, index_path
from mxtrain.data.records.record_writer import RecordWriter
from mxtrain.data.sources.formats import protobuf
from mxtrain.data.sources.formats.crc32c import crc32c
from mxtrain.data.sources.item import BadItem
from mxtrain.data.sources.opening import SourceOptions, open_source
from mxtrain.data.sources.recognise import recognise
from tests.support.data.binary_sources import (
    PIXELS,
    PNGS,
    bytes_field,
    datum,
    example,
    number_field,
    tfrecord,
    write_lmdb,
)


def payloads(found):
    return [found.read(item) for item in found.items]


def labels(found):
    return [item.label for item in found.items]


def rgb(data):
    return cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)[:, :, ::-1]


# .rec


def write_rec(path, label_of, class_names=None):
    with RecordWriter(path) as writer:
        for key, data in enumerate(PNGS):
            writer.write(10 * key, label_of(key), data)
    if class_names:
        classes_path(path).write_text("".join(f"{name}\t0\n" for name in class_names))
    return path


@pytest.mark.parametrize("indexed", [True, False])
def test_a_rec_with_and_without_index(tmp_path, indexed):
    path = write_rec(tmp_path / "a.rec", lambda key: key % 2, ["cat", "dog"])
    if not indexed:
        index_path(path).unlink()
    found = open_source(path)
    assert payloads(found) == PNGS
    assert labels(found) == [0, 1, 0, 1]
    assert found.class_names == ["cat", "dog"]


def test_a_folder_of_recs_with_several_labels(tmp_path):
    for name in ("a", "b"):
        write_rec(tmp_path / f"{name}.rec", lambda key: np.array([key, 1], np.float32))
    with pytest.raises(UsageError, match="--multi-label"):
        open_source(tmp_path)
    found = open_source(tmp_path, options=SourceOptions(multi_label=True))
    assert payloads(found) == PNGS * 2
    assert labels(found)[4:] == [(0.0, 1.0), (1.0, 1.0), (2.0, 1.0), (3.0, 1.0)]
    assert len({item.name for item in found.items}) == 8


def test_a_damaged_record_is_a_bad_item(tmp_path):
    path = write_rec(tmp_path / "a.rec", float)
    data = bytearray(path.read_bytes())
    data[data.index(PNGS[1]) + 20] ^= 1
    path.write_bytes(data)
    found = open_source(path)
    with pytest.raises(BadItem, match="checksum"):
        found.read(found.items[1])
    assert found.read(found.items[2]) == PNGS[2]


# WebDataset


def write_tar(path, members, mode="w"):
    with tarfile.open(path, mode) as tar:
        for name, data in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return path


def test_tars_of_samples(tmp_path):
    members = []
    for number, data in enumerate(PNGS):
        members += [(f"./x/{number:06}.cls", b"%d\n" % (number % 2)), (f"./x/{number:06}.seg.PNG", data)]
    write_tar(tmp_path / "a.tar", members)
    write_tar(
        tmp_path / "b.tar",
        [
            ("s.jpg", PNGS[0]),
            ("s.json", b'{"label": 1}'),
            ("s.txt", b"a text"),
            ("t.png", PNGS[1]),
            ("t.cls", b"0"),
        ],
    )
    assert recognise(tmp_path / "a.tar") == recognise(tmp_path) == "webdataset"
    found = open_source(tmp_path)
    assert payloads(found) == [*PNGS, PNGS[0], PNGS[1]]
    assert labels(found) == [0, 1, 0, 1, 1, 0]
    assert found.items[0].name == "a.tar/./x/000000"


def test_tars_with_class_names_and_several_labels(tmp_path):
    write_tar(
        tmp_path / "a.tar", [("1.png", PNGS[0]), ("1.cls", b"dog"), ("2.png", PNGS[1]), ("2.cls", b"cat")]
    )
    found = open_source(tmp_path / "a.tar")
    assert (labels(found), found.class_names) == ([1, 0], ["cat", "dog"])
    write_tar(tmp_path / "b.tar", [("1.png", PNGS[0]), ("1.json", json.dumps({"labels": [1, 0.5]}).encode())])
    assert labels(open_source(tmp_path / "b.tar", options=SourceOptions(multi_label=True))) == [(1.0, 0.5)]


def test_the_picture_of_a_sample_is_that_of_the_plainest_name(tmp_path):
    members = [("1.depth.png", PNGS[1]), ("1.cls", b"0"), ("1.png", PNGS[0]), ("1.seg.png", PNGS[1])]
    assert payloads(open_source(write_tar(tmp_path / "a.tar", members))) == [PNGS[0]]
    for names in (["1.left.png", "1.right.png"], ["1.png", "1.jpg"]):
        members = [("1.cls", b"0"), *((name, PNGS[0]) for name in names)]
        with pytest.raises(
            DataError, match=r"sample .1. has several images, .* the plainest name, as in 7\.png"
        ):
            open_source(write_tar(tmp_path / "b.tar", members))


def test_a_label_of_its_own_file_comes_before_one_in_json(tmp_path):
    about = json.dumps({"label": "a bee on a leaf"}).encode()
    members = [("1.json", about), ("1.png", PNGS[0]), ("1.cls", b"7")]
    assert labels(open_source(write_tar(tmp_path / "a.tar", members))) == [7]


def test_bad_tars_are_named(tmp_path):
    with pytest.raises(DataError, match="sample '1' has no image"):
        open_source(write_tar(tmp_path / "a.tar", [("1.cls", b"1")]))
    with pytest.raises(DataError, match="sample '1' has no label"):
        open_source(write_tar(tmp_path / "a.tar", [("1.png", PNGS[0])]))
    with pytest.raises(DataError, match=r"1\.json is damaged"):
        open_source(write_tar(tmp_path / "a.tar", [("1.png", PNGS[0]), ("1.json", b"{")]))
    with pytest.raises(UsageError, match="gzip archive"):
        open_source(write_tar(tmp_path / "a.tar.gz", [("1.png", PNGS[0])], "w:gz"))
    path = write_tar(
        tmp_path / "a.tar", [(f"{n}.{s}", d) for n in range(9) for s, d in (("png", PNGS[0]), ("cls", b"1"))]
    )
    path.write_bytes(path.read_bytes()[:1700])
    with pytest.raises(DataError, match=r"a\.tar"):
        open_source(path)


# Protocol buffers, written by hand


@given(st.lists(st.tuples(st.integers(1, 1000), st.one_of(st.integers(-(2**63), 2**63 - 1), st.binary()))))
def test_protobuf_fields(fields):
    message = b"".join(
        number_field(number, value) if isinstance(value, int) else bytes_field(number, value)
        for number, value in fields
    )
    found = [
        (number, protobuf.signed(value) if isinstance(value, int) else bytes(value))
        for number, value in protobuf.fields(memoryview(message))
    ]
    assert found == fields


@given(st.binary(max_size=200))
def test_other_bytes_are_no_protobuf_or_fields(data):
    try:
        for _ in protobuf.fields(memoryview(data)):
            pass
    except BadItem:
        pass


# TFRecord


def test_crc32c_of_known_vectors():
    # RFC 3720, B.4.
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E
    assert crc32c(b"") == 0


@given(st.binary(max_size=700))
def test_crc32c_is_the_bitwise_one(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    assert crc32c(data) == crc ^ 0xFFFFFFFF


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("name", ["a.tfrecord", "train-00000-of-00001"])
def test_tfrecords(tmp_path, packed, name):
    examples = [example(data, [number % 2], packed=packed) for number, data in enumerate(PNGS)]
    (tmp_path / name).write_bytes(tfrecord(*examples))
    assert recognise(tmp_path) == recognise(tmp_path / name) == "tfrecord"
    for source in (tmp_path, tmp_path / name):
        found = open_source(source)
        assert payloads(found) == PNGS
        assert labels(found) == [0, 1, 0, 1]
        assert found.class_names == ["0", "1"]


def test_tfrecords_with_class_names_that_start_at_1(tmp_path):
    path = tmp_path / "a.tfrecord"
    path.write_bytes(tfrecord(example(PNGS[0], [2], b"dog"), example(PNGS[1], [1], b"cat")))
    found = open_source(path)
    assert (labels(found), found.class_names) == ([2, 1], ["0", "cat", "dog"])


@pytest.mark.timeout(20)
def test_tfrecords_whose_labels_are_hashes_are_refused(tmp_path):
    path = tmp_path / "a.tfrecord"
    path.write_bytes(tfrecord(example(PNGS[0], [2], b"dog"), example(PNGS[1], [2**62], b"cat")))
    with pytest.raises(
        DataError, match="has the label 4611686018427387904, and records hold whole numbers up to"
    ):
        open_source(path)


@pytest.mark.parametrize("text", [b"a\tcat", b"cat\n", b"\rcat"])
def test_tfrecords_with_a_text_that_no_list_can_hold(tmp_path, text):
    (tmp_path / "a.tfrecord").write_bytes(tfrecord(example(PNGS[0], [0], text)))
    with pytest.raises(DataError, match="a tab or a line break in it"):
        open_source(tmp_path)


@pytest.mark.parametrize("texts", [(b"1", b""), (b"crane", b"crane"), (b"", b"")])
def test_tfrecords_whose_texts_are_no_names_have_numbers(tmp_path, texts):
    examples = [example(PNGS[0], [label], text) for label, text in enumerate(texts)]
    (tmp_path / "a.tfrecord").write_bytes(tfrecord(*examples))
    assert open_source(tmp_path).class_names == ["0", "1"]


def test_damaged_tfrecords(tmp_path):
    path = tmp_path / "a.tfrecord"
    data = bytearray(tfrecord(*[example(image, [1]) for image in PNGS[:2]]))
    data[data.index(PNGS[0]) + 5] ^= 4
    path.write_bytes(data)
    found = open_source(path)
    with pytest.raises(BadItem, match="checksum"):
        found.read(found.items[0])
    assert found.read(found.items[1]) == PNGS[1]
    path.write_bytes(data[:-20])
    with pytest.raises(DataError, match="ends in the record"):
        open_source(path)
    path.write_bytes(tfrecord(b"\xff\xff"))
    with pytest.raises(DataError, match=r"no tf\.train\.Example"):
        open_source(path)
    path.write_bytes(tfrecord(bytes_field(1, b"")))
    with pytest.raises(DataError, match="no feature image/class/label"):
        open_source(path)


# Caffe


def test_an_lmdb_of_datums(tmp_path):
    raw = [image[:, :, ::-1].transpose(2, 0, 1).tobytes() for image in PIXELS]  # planes, blue first
    gray = PIXELS[0, :, :, 0]
    values = [datum(PNGS[0], 1, True), datum(raw[1], 0, False), datum(gray.tobytes(), 1, False, (1, 6, 5))]
    path = write_lmdb(tmp_path / "train_lmdb", [*values, datum(raw[1][:-1], 0, False)])
    assert recognise(path) == recognise(path / "data.mdb") == "lmdb"
    found = open_source(path)
    assert labels(found) == [1, 0, 1, 0]
    assert found.read(found.items[0]) == PNGS[0]
    np.testing.assert_array_equal(rgb(found.read(found.items[1])), PIXELS[1])
    np.testing.assert_array_equal(rgb(found.read(found.items[2])), np.dstack([gray] * 3))
    with pytest.raises(BadItem, match="announces"):
        found.read(found.items[3])


@pytest.mark.parametrize("size", [(6, 1), (6, 3), (1, 3), (3, 1), (3, 3), (1, 1)])
@pytest.mark.parametrize("channels", [1, 3])
def test_an_lmdb_of_small_pictures(tmp_path, size, channels):
    planes = np.random.RandomState(0).randint(0, 256, (channels, *size)).astype(np.uint8)  # blue first
    found = open_source(write_lmdb(tmp_path / "a", [datum(planes.tobytes(), 0, False, planes.shape)]))
    expected = np.broadcast_to(planes[::-1].transpose(1, 2, 0), (*size, 3))
    np.testing.assert_array_equal(rgb(found.read(found.items[0])), expected)


def test_an_lmdb_of_something_else(tmp_path):
    with pytest.raises(DataError, match="no Caffe Datum"):
        open_source(write_lmdb(tmp_path / "other", [b"\xff"]))
    (tmp_path / "data.mdb").write_bytes(b"nonsense")
    with pytest.raises(DataError, match="no LMDB database"):
        open_source(tmp_path)


# HDF5


def write_hdf5(path, **datasets):
    with h5py.File(path, "w") as file:
        for name, values in datasets.items():
            file[name] = values
    return path


@pytest.mark.parametrize("planes", [False, True])
def test_hdf5_with_raw_pixels(tmp_path, planes):
    images = PIXELS.transpose(0, 3, 1, 2) if planes else PIXELS
    path = write_hdf5(tmp_path / "a.h5", images=images, labels=np.array([0, 1, 0, 1]))
    found = open_source(path)
    assert labels(found) == [0, 1, 0, 1]
    for data, image in zip(payloads(found), PIXELS):
        np.testing.assert_array_equal(rgb(data), image)


def test_hdf5_with_encoded_images_and_class_names(tmp_path):
    path = tmp_path / "a.hdf5"
    with h5py.File(path, "w") as file:
        images = file.create_dataset("images", len(PNGS), h5py.vlen_dtype(np.uint8))
        for number, data in enumerate(PNGS):
            images[number] = np.frombuffer(data, np.uint8)
        file.create_dataset("labels", data=["dog", "cat", "cat", "dog"], dtype=h5py.string_dtype())
    found = open_source(path)
    assert (labels(found), found.class_names) == ([1, 0, 0, 1], ["cat", "dog"])
    assert payloads(found) == PNGS


def test_hdf5_with_several_labels(tmp_path):
    path = write_hdf5(tmp_path / "a.h5", data=PIXELS, targets=np.eye(4)[:, :2])
    assert labels(open_source(path, options=SourceOptions(multi_label=True))) == [
        (1.0, 0.0),
        (0.0, 1.0),
        (0.0, 0.0),
        (0.0, 0.0),
    ]


def test_bad_hdf5_is_named(tmp_path):
    with pytest.raises(DataError, match=r"no dataset labels or.*it has images"):
        open_source(write_hdf5(tmp_path / "a.h5", images=PIXELS))
    with pytest.raises(DataError, match="4 images and 3 labels"):
        open_source(write_hdf5(tmp_path / "a.h5", images=PIXELS, labels=np.arange(3)))
    floats = open_source(write_hdf5(tmp_path / "a.h5", images=PIXELS / 255, labels=np.arange(4)))
    with pytest.raises(BadItem, match="float64"):
        floats.read(floats.items[0])
    (tmp_path / "b.h5").write_bytes(b"\x89HDF\r\n\x1a\n")
    with pytest.raises(DataError, match="no HDF5 file"):
        open_source(tmp_path / "b.h5")


# What is not installed


@pytest.mark.parametrize(("module", "name"), [("lmdb", "data.mdb"), ("h5py", "a.h5")])
def test_a_missing_package_is_named(tmp_path, monkeypatch, module, name):
    monkeypatch.setitem(__import__("sys").modules, module, None)
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(UsageError, match=f"needs the package {module}: pip install"):
        open_source(tmp_path / name)
