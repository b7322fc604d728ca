"""Batches come from the loader to a context without needless copies and without a change."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from mxtrain import config
from mxtrain.data.augment.transforms import train_transform
from mxtrain.data.image_fields import dtype_of, picture_assembly
from mxtrain.data.interfaces import Records
from mxtrain.data.loading.loader import Loader, LoaderOptions, Request
from mxtrain.data.records.record_file import open_records
from mxtrain.data.records.record_writer import RecordWriter
from mxtrain.models.normalize import normalized
from mxtrain.runtime import mx
from mxtrain.train.net.to_device import to_device

SIZE, COUNT = 16, 24


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Records:
    path, rng = tmp_path_factory.mktemp("records") / "some.rec", np.random.default_rng(0)
    with RecordWriter(path) as writer:
        for key in range(COUNT):
            small = rng.integers(0, 256, (6, 8, 3), np.uint8)
            writer.write(key, float(key % 3), cv2.imencode(".jpg", cv2.resize(small, (40, 30)))[1].tobytes())
    return open_records(path)


def batches(records: Records, kind: str, dtype: str) -> Loader:
    requests = [Request(0, position, 0, np.arange(8) + 8 * position) for position in range(3)]
    transform = train_transform("resized_crop+flip", SIZE)
    assembly = picture_assembly(records, transform, SIZE, seed=3, dtype=dtype)
    return Loader(assembly, requests, LoaderOptions(kind, "2"))


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_mxnet_reads_a_batch_where_the_loader_put_it_and_it_stays_writable(
    records: Records, kind: str
) -> None:
    with batches(records, kind, "float32") as loader:
        for batch in loader:
            there = to_device(batch.arrays["data"], mx.cpu())
            np.testing.assert_array_equal(there.asnumpy(), batch.arrays["data"])
            batch.arrays["data"][0, 0, 0, 0] = 77
            assert there[0, 0, 0, 0].asscalar() == 77
            np.testing.assert_array_equal(
                to_device(batch.arrays["label"], mx.cpu(1)).asnumpy(), batch.arrays["label"]
            )
            mx.nd.waitall()
            loader.release(batch)


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_bytes_normalised_on_a_device_are_what_the_loader_makes(records: Records, kind: str) -> None:
    with batches(records, "threads", "float32") as of_host, batches(records, kind, "uint8") as of_device:
        for expected, batch in zip(of_host, of_device):
            assert batch.arrays["data"].dtype == np.uint8
            found = normalized(to_device(batch.arrays["data"], mx.cpu(1)))
            assert found.dtype == np.float32
            np.testing.assert_allclose(found.asnumpy(), expected.arrays["data"], rtol=0, atol=2e-6)
            np.testing.assert_array_equal(batch.arrays["label"], expected.arrays["label"])


def test_the_device_decides_who_normalises_unless_a_flag_does() -> None:
    def chosen(*flags: str) -> str:
        return dtype_of(config.parse(["--train", "a.rec", *flags]))

    assert chosen() == chosen("--devices", "gpu:0", "--normalize", "host") == "float32"
    assert chosen("--devices", "gpu:0,1") == chosen("--normalize", "device") == "uint8"
