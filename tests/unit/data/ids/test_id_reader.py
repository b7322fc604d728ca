"""Samples with ids, read one by one and many at once: the same bits, and the same refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.core.errors import DataError
from mxtrain.data import fields
from mxtrain.data.arrays.table_selection import Selection
from mxtrain.data.fields import Arrays, Field
from mxtrain.data.ids import id_reader, id_tables
from mxtrain.data.ids.id_reader import IdReader
from mxtrain.data.loading.assembly import BatchSlice, SampleAssembly
from mxtrain.data.loading.loader import Loader, LoaderOptions, Request
from mxtrain.data.records import record_batch, recordio
from mxtrain.data.records.record_sets import open_set
from tests.support.data.pack_command import in_this_process

NUM = 60
FLAGS = {"target": "click", "categories": "user", "lists": "bought,seen", "sample_weight": "w"}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    rows = [
        f"{rng.integers(2)},{rng.integers(1 << 62)},{'|'.join(map(str, range(k % 5)))},"
        f"{'|'.join('abc'[: k % 4])},{rng.normal():.6f},{rng.random():.3f}"
        for k in range(NUM)
    ]
    (tmp_path / "a.csv").write_text("\n".join(["click,user,bought,seen,age,w", *rows]))
    return tmp_path / "a.csv"


def packed(table: Path, *flags: str) -> Any:
    out = table.with_suffix("")
    of_columns = [part for name, text in FLAGS.items() for part in (f"--{name.replace('_', '-')}", text)]
    done = in_this_process("pack", table, out, "--from", "ids", *of_columns, *flags)
    assert done.returncode == 0, done.stderr
    return open_set(str(out / "*.rec"))


def assembly_of(records: Any, is_training: bool = True) -> SampleAssembly:
    inputs = id_tables.layout_of(records).inputs
    of_sample = (*id_reader.fields(inputs), Field("label", (1,)), Field("sample_weight", ()))
    return SampleAssembly(records, IdReader(inputs, 1, 1, is_training), of_sample, seed=0)


class OneByOne:
    """A reader that cannot make many samples at once."""

    def __init__(self, reader: Any):
        self.reader = reader

    def __call__(self, *arguments: Any) -> Any:
        return self.reader(*arguments)


def arrays(assembly: SampleAssembly, positions: Any, is_many: bool) -> Arrays:
    """Return the arrays of a micro-batch, in memory that held others before."""
    if not is_many:
        assembly = SampleAssembly(assembly.records, OneByOne(assembly.reader), assembly.fields, 0)
    memory = np.full(fields.num_bytes(assembly.fields, len(positions)), 7, np.uint8)
    rows = fields.rows(assembly.fields, len(positions), memory)
    for start in (0, len(positions) // 3):  # a worker's part, then another's
        end = len(positions) // 3 if not start else len(positions)
        assembly(BatchSlice(np.asarray(positions)[start:end], start, 0, True), rows)
    return fields.cut(assembly.fields, rows)


def assert_same(one: Arrays, other: Arrays) -> None:
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], name)


@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize("shards", [0, 1, 3])
def test_many_at_once_are_the_same_bits(shards: int, is_training: bool, table: Path) -> None:
    own = id_tables.open_records(table, Selection(**FLAGS))
    records = packed(table, "--shards", str(shards)) if shards else own
    assembly = assembly_of(records, is_training)
    positions = np.random.default_rng(1).permutation(NUM)[:50]
    assert assembly.reader.write_many(  # type: ignore[attr-defined]
        records, positions, fields.rows(assembly.fields, 50, np.empty(1 << 20, np.uint8)), 0, True
    )
    many = arrays(assembly, positions, is_many=True)
    assert_same(many, arrays(assembly, positions, is_many=False))
    assert many["bought"].shape[1] == 13 and many["bought_lengths"].max() == 4
    assert (many["sample_weight"] == 1).all() != is_training


def test_packed_samples_are_those_of_the_table(table: Path) -> None:
    own = id_tables.open_records(table, Selection(**FLAGS))
    records = packed(table, "--no-shuffle")
    assert_same(
        arrays(assembly_of(records), np.arange(NUM), True), arrays(assembly_of(own), np.arange(NUM), True)
    )


@pytest.mark.parametrize("loader", ["threads", "processes"])
def test_the_loader_makes_them(loader: str, table: Path) -> None:
    assembly = assembly_of(packed(table))
    requests = [Request(0, place, 0, np.arange(place * 20, place * 20 + 20)) for place in range(3)]
    with Loader(assembly, requests, LoaderOptions(loader=loader, workers="2")) as batches:
        for request, batch in zip(requests, batches):
            assert_same(batch.arrays, arrays(assembly, request.samples, is_many=False))


@pytest.mark.parametrize("skip_bad", [0, 1])
def test_damage_is_named_or_passed_over(skip_bad: int, table: Path) -> None:
    packed(table)
    rec = table.with_suffix("") / "data.rec"
    content = bytearray(rec.read_bytes())
    content[len(content) // 2] ^= 1
    rec.write_bytes(content)
    assembly = assembly_of(open_set(str(rec)))
    assembly = SampleAssembly(assembly.records, assembly.reader, assembly.fields, 0, skip_bad)
    rows = fields.rows(assembly.fields, NUM, np.empty(1 << 20, np.uint8))
    if skip_bad:
        (skipped,) = assembly(BatchSlice(np.arange(NUM), 0, 0, True), rows)
        assert "the checksum differs" in skipped.reason
    else:
        with pytest.raises(DataError, match=r"data\.rec: record .*the checksum differs"):
            assembly(BatchSlice(np.arange(NUM), 0, 0, True), rows)


def test_a_payload_with_the_magic_number_in_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "b.npz"
    magic = np.full(8, recordio.MAGIC, np.uint32).view(np.float32)
    np.savez(path, y=np.arange(8) % 2, age=magic, user=np.arange(8))
    done = in_this_process("pack", path, tmp_path / "b", "--from", "ids", "--categories", "user")
    assert done.returncode == 0, done.stderr
    records = open_set(str(tmp_path / "b" / "data.rec"))
    assert record_batch.read(records, np.arange(8), verify=True) is None  # it lies in several parts
    inputs = id_tables.layout_of(records).inputs
    assembly = SampleAssembly(
        records, IdReader(inputs, 1, None, True), (*id_reader.fields(inputs), Field("label", (1,))), 0
    )
    assert_same(arrays(assembly, np.arange(8), True), arrays(assembly, np.arange(8), False))
