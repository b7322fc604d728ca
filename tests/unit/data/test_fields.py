"""Named arrays of samples that vary in length, from the reader to the batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.core.errors import DataError
from mxtrain.data import fields
from mxtrain.data.fields import BadSample, Field
from mxtrain.data.interfaces import Records
from mxtrain.data.loading.assembly import SampleAssembly
from mxtrain.data.loading.loader import Loader, LoaderOptions, Request
from mxtrain.data.records.record_file import open_records
from mxtrain.data.records.record_writer import RecordWriter
from tests.support.data.loader_transforms import FIELDS, read_words

LENGTHS = [3, 0, 9, 5, 12, 1, 2, 4]


@pytest.fixture
def records(tmp_path: Path) -> Records:
    path = tmp_path / "words.rec"
    with RecordWriter(path) as writer:
        for key, length in enumerate(LENGTHS):
            writer.write(key, float(key), bytes(range(10, 10 + length)))
    return open_records(path)


def opened(records: Records, wanted: list[list[int]], kind: str = "threads", **more: Any) -> Loader:
    requests = [Request(0, place, 0, np.array(samples)) for place, samples in enumerate(wanted)]
    assembly = SampleAssembly(records, read_words, FIELDS, 0, **more)
    return Loader(assembly, requests, LoaderOptions(kind, "2"))


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_a_micro_batch_is_as_long_as_its_longest_sample_rounded_up(records: Records, kind: str) -> None:
    wanted = [[0, 1, 3], [2, 0], [4, 5], [1], [2, 0, 1, 3, 5, 6, 7, 0, 2]]
    with opened(records, wanted, kind) as loader:
        for batch, samples, length in zip(loader, wanted, (8, 12, 12, 4, 12)):
            words, mask = batch.arrays["words"], batch.arrays["mask"]
            assert words.shape == (len(samples), length) and mask.shape == (*words.shape, 2)
            assert words.flags.c_contiguous and (words.dtype, mask.dtype) == (np.int32, np.uint8)
            for row, sample in enumerate(samples):
                own = LENGTHS[sample]
                assert words[row].tolist() == [*range(10, 10 + own), *[-1] * (length - own)]
                assert (mask[row, :own] == sample).all() and (mask[row, own:] == 0).all()
            assert batch.arrays["mean"].tolist() == [float(sample) for sample in samples]
            loader.release(batch)


def test_the_shape_follows_from_the_samples_of_the_micro_batch_alone(records: Records) -> None:
    """A buffer that was used before leaves no trace."""
    alone, after = [], []
    for found, wanted in ((alone, [[0, 1]]), (after, [[4, 2], [4, 4], [2, 2], [0, 1]])):
        with opened(records, wanted) as loader:
            for batch in loader:
                found.append({name: array.copy() for name, array in batch.arrays.items()})
                loader.release(batch)
    for name, expected in alone[-1].items():
        np.testing.assert_array_equal(after[-1][name], expected, err_msg=name)


def test_a_sample_of_another_shape_is_a_bad_record(tmp_path: Path) -> None:
    path = tmp_path / "long.rec"
    with RecordWriter(path) as writer:
        for key, length in enumerate((3, 14, 2)):
            writer.write(key, float(key), bytes(length))
    with pytest.raises(
        DataError, match=r"record 1 \(key 1\): its words has the shape \(14,\), but .* words up to \(12,\)"
    ), opened(open_records(path), [[0, 1, 2]]) as loader:
        next(loader)
    with opened(open_records(path), [[0, 1, 2]], skip_bad=1) as loader:
        assert next(loader).arrays["mean"].tolist() == [0, 2, 2] and list(loader.skipped) == [1]


def test_values_of_another_kind_are_refused() -> None:
    field = Field("words", (4,), "int32", multiple=2)
    memory = np.zeros(fields.num_bytes([field], 2), np.uint8)
    rows = fields.rows([field], 2, memory)
    with pytest.raises(TypeError):
        rows.write([field], 0, {"words": np.array([0.5, 1.5])})
    for wrong in (3, np.zeros((2, 2), np.int32)):
        with pytest.raises(BadSample):
            rows.write([field], 0, {"words": wrong})


@pytest.mark.parametrize(("longest", "length"), [(0, 4), (1, 4), (4, 4), (5, 8), (9, 10), (10, 10)])
def test_lengths_are_rounded_up_and_never_beyond_the_most(longest: int, length: int) -> None:
    assert fields.rounded_length(Field("words", (10,), "int32", multiple=4), longest) == length


def test_every_array_begins_where_wide_loads_are_fast() -> None:
    several = [Field("a", (3,)), Field("b", (), "int64"), Field("c", (5,), "uint8", multiple=2)]
    memory = np.zeros(fields.num_bytes(several, 3) + 64, np.uint8)
    start = -memory.ctypes.data % 64
    rows = fields.rows(several, 3, memory[start : start + fields.num_bytes(several, 3)])
    addresses = [array.ctypes.data for array in (*rows.arrays.values(), *rows.lengths.values())]
    assert len(addresses) == 4 and all(address % fields.ALIGNMENT == 0 for address in addresses)
