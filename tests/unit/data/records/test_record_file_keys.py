"""Records with very many labels, and with keys that are not unique."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from mxtrain.core.errors import DataError
from mxtrain.data.records.record_file import open_records
from mxtrain.data.records.record_writer import RecordWriter, rebuild_index


def write(path, label, payload, num_records=10):
    with RecordWriter(path) as writer:
        for key in range(num_records):
            writer.write(key, label, payload)
    return path


def test_many_labels_do_not_keep_their_records_in_memory(tmp_path):
    found = open_records(write(tmp_path / "a.rec", np.arange(50, dtype=np.float32), bytes(1 << 20)))
    tracemalloc.start()
    try:
        found.labels()
        assert tracemalloc.get_traced_memory()[1] < 5 << 20
    finally:
        tracemalloc.stop()


def test_two_files_one_behind_the_other_are_refused(tmp_path):
    path = write(tmp_path / "a.rec", 0.0, b"payload", num_records=3)
    path.write_bytes(path.read_bytes() * 2)
    with pytest.raises(DataError, match=r"a\.rec: 3 of 6 records have another one's key"):
        rebuild_index(path)
