"""Our .rec files and MXNet's are the same to the other side."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from mxtrain.data.records import recordio
from mxtrain.data.records.record_file import open_records
from mxtrain.data.records.record_writer import RecordWriter
from mxtrain.runtime import mx

MAGIC = struct.pack("<I", recordio.MAGIC)
PAYLOADS = {
    "empty": b"",
    "unaligned length": b"12345",
    "magic alone": MAGIC,
    "magic first": MAGIC + b"abcdefg",
    "magic last": b"abcd" + MAGIC,
    "magic twice in a row": b"abcd" + MAGIC * 2 + b"xyz",
    "magic unaligned": b"abc" + MAGIC + b"abcd",
    "magic aligned and unaligned": b"a" + MAGIC + b"abc" + MAGIC + b"ab" + MAGIC,
    "magic cut short": b"abcd" + MAGIC[:3],
}
LABELS = {"class": 3.0, "fraction": 0.25, "several": np.array([1, 2.5, -3], np.float32)}


@pytest.fixture(params=sorted(PAYLOADS))
def payload(request):
    return PAYLOADS[request.param]


@pytest.fixture(params=sorted(LABELS))
def label(request):
    return LABELS[request.param]


def test_the_same_data_becomes_the_same_bytes(tmp_path, payload):
    data = recordio.pack(1, 2.0, payload)
    writer = mx.recordio.MXRecordIO(str(tmp_path / "theirs.rec"), "w")
    writer.write(data)
    writer.close()
    assert (tmp_path / "theirs.rec").read_bytes() == recordio.frame(data)


def test_mxnet_reads_what_we_write(tmp_path, payload, label):
    with RecordWriter(tmp_path / "ours.rec") as writer:
        writer.write(7, label, payload)
        writer.write(9, 1.0, b"next")
    theirs = mx.recordio.MXIndexedRecordIO(str(tmp_path / "ours.idx"), str(tmp_path / "ours.rec"), "r")
    assert theirs.keys == [7, 9]
    header, found = mx.recordio.unpack(theirs.read_idx(7))
    assert (header.id, found) == (7, payload)
    np.testing.assert_array_equal(header.label, label)
    assert mx.recordio.unpack(theirs.read_idx(9))[1] == b"next"


@pytest.mark.parametrize("indexed", [True, False])
def test_we_read_what_mxnet_writes(tmp_path, payload, label, indexed):
    rec, idx = tmp_path / "theirs.rec", tmp_path / "theirs.idx"
    writer = mx.recordio.MXIndexedRecordIO(str(idx), str(rec), "w")
    for key, data in [(7, payload), (9, b"next")]:
        writer.write_idx(key, mx.recordio.pack(mx.recordio.IRHeader(0, label, key, 0), data))
    writer.close()
    if not indexed:
        idx.unlink()
    records = open_records(rec)
    assert records.keys.tolist() == [7, 9]
    found = records.read(0)
    assert (found.key, bytes(found.payload)) == (7, payload)
    np.testing.assert_array_equal(found.label, label)
    np.testing.assert_array_equal(records.labels()[1], label)


def images(num_images):
    generator = np.random.default_rng(0)
    for _ in range(num_images):
        yield generator.integers(0, 256, (24, 32, 3), dtype=np.uint8)


def write_pngs(path, num_images=6):
    pixels = list(images(num_images))
    with RecordWriter(path) as writer:
        for key, image in enumerate(pixels):
            writer.write(key, key % 3, cv2.imencode(".png", image)[1].tobytes())
    return pixels


def test_image_record_dataset_reads_our_file(tmp_path):
    pixels = write_pngs(tmp_path / "ours.rec")
    dataset = mx.gluon.data.vision.ImageRecordDataset(str(tmp_path / "ours.rec"))
    assert len(dataset) == len(pixels)
    for key, bgr in enumerate(pixels):
        image, label = dataset[key]
        assert label == key % 3
        np.testing.assert_array_equal(image.asnumpy(), bgr[:, :, ::-1])


def test_image_record_iter_reads_our_file(tmp_path):
    pixels = write_pngs(tmp_path / "ours.rec")
    iterator = mx.io.ImageRecordIter(
        path_imgrec=str(tmp_path / "ours.rec"),
        path_imgidx=str(tmp_path / "ours.idx"),
        data_shape=(3, 24, 32),
        batch_size=len(pixels),
        shuffle=False,
        preprocess_threads=1,
    )
    batch = next(iterator)
    np.testing.assert_array_equal(batch.label[0].asnumpy(), [0, 1, 2, 0, 1, 2])
    rgb = np.stack([bgr[:, :, ::-1].transpose(2, 0, 1) for bgr in pixels])
    np.testing.assert_array_equal(batch.data[0].asnumpy(), rgb)


def run_im2rec(*arguments):
    # im2rec.py imports mxnet by itself, so it needs what runtime.py does for us.
    script = Path(mx.__file__).with_name("tools") / "im2rec.py"
    code = (
        f"import runpy; from mxtrain.runtime import mx; runpy.run_path({str(script)!r}, run_name='__main__')"
    )
    command = [sys.executable, "-c", code, *map(str, arguments)]
    subprocess.run(command, check=True, timeout=60, stdout=subprocess.DEVNULL)


def test_we_read_what_im2rec_packs(tmp_path):
    for key, image in enumerate(images(6)):
        folder = tmp_path / "images" / "abc"[key % 3]
        folder.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(folder / f"{key}.png"), image)
    run_im2rec("--list", "--recursive", tmp_path / "theirs", tmp_path / "images")
    run_im2rec("--pass-through", tmp_path / "theirs", tmp_path / "images")
    records = open_records(tmp_path / "theirs.rec")
    listed = [line.split("\t") for line in (tmp_path / "theirs.lst").read_text().splitlines()]
    assert len(records) == len(listed) == 6
    for position, (key, label, name) in enumerate(listed):
        found = records.read(position)
        assert (found.key, found.label) == (int(key), float(label))
        assert bytes(found.payload) == (tmp_path / "images" / name).read_bytes()
    (tmp_path / "theirs.idx").unlink()
    assert open_records(tmp_path / "theirs.rec").keys.tolist() == records.keys.tolist()
