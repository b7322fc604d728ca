"""What `pack` makes is read by MXNet's own readers, and by DALI's, to the same pixels."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from mxtrain.data.decode import decoding
from mxtrain.data.records.record_file import open_records
from mxtrain.runtime import mx

ROOT = Path(__file__).resolve().parents[3]
HEIGHT, WIDTH = 48, 64
MODES = {
    "as they are": [],
    "with restart intervals": ["--quality", "95"],
    "shards": ["--quality", "95", "--shards", "2"],
}


@pytest.fixture(params=sorted(MODES))
def packed(tmp_path, request):
    generator = np.random.default_rng(0)
    for number in range(12):
        path = tmp_path / "images" / "abc"[number % 3] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(
            str(path), cv2.GaussianBlur(generator.integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8), (0, 0), 2)
        )
    command = [sys.executable, "-m", "tools.im2rec_wrapper", "pack", tmp_path / "images", tmp_path / "out"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([*command, *MODES[request.param]], env=environment, check=True, timeout=60)
    return sorted((tmp_path / "out").glob("*.rec"))


def pixels_and_labels(path):
    records = [
        record for records in [open_records(path)] for record in map(records.read, range(len(records)))
    ]
    return [(decoding.decode(record.payload), record.label) for record in records]


def test_image_record_dataset_reads_it(packed):
    for path in packed:
        dataset = mx.gluon.data.vision.ImageRecordDataset(str(path))
        expected = pixels_and_labels(path)
        assert len(dataset) == len(expected)
        for (image, label), (pixels, expected_label) in zip(dataset, expected):
            assert label == expected_label
            np.testing.assert_array_equal(image.asnumpy(), pixels)


def test_image_record_iter_reads_it(packed):
    for path in packed:
        expected = pixels_and_labels(path)
        iterator = mx.io.ImageRecordIter(
            path_imgrec=str(path),
            path_imgidx=str(path.with_suffix(".idx")),
            data_shape=(3, HEIGHT, WIDTH),
            batch_size=len(expected),
            shuffle=False,
            preprocess_threads=1,
        )
        batch = next(iterator)
        np.testing.assert_array_equal(batch.label[0].asnumpy(), [label for _, label in expected])
        planes = np.stack([pixels.transpose(2, 0, 1) for pixels, _ in expected])
        np.testing.assert_array_equal(batch.data[0].asnumpy(), planes)


DALI = """
import sys
import numpy as np
from nvidia.dali import fn, pipeline_def

@pipeline_def(num_threads=1, device_id=None)
def pipeline(path):
    encoded, labels = fn.readers.mxnet(path=[path], index_path=[path[:-3] + "idx"], name="reader")
    return fn.decoders.image(encoded, device="cpu"), labels

path, num_records, out = sys.argv[1:]
made = pipeline(path, batch_size=int(num_records))
made.build()
assert made.epoch_size("reader") == int(num_records)
images, labels = made.run()
np.savez(out, images=np.stack([np.array(image) for image in images]), labels=np.ravel(labels.as_array()))
"""


@pytest.mark.slow
def test_dali_reads_it(packed, tmp_path):
    pytest.importorskip("nvidia.dali")
    for path in packed:  # its reader takes one file at a time
        expected = pixels_and_labels(path)
        command = [sys.executable, "-c", DALI, path, str(len(expected)), tmp_path / "read.npz"]
        subprocess.run(command, check=True, timeout=100)
        read = np.load(tmp_path / "read.npz")
        np.testing.assert_array_equal(read["labels"], [label for _, label in expected])
        np.testing.assert_array_equal(read["images"], np.stack([pixels for pixels, _ in expected]))
