"""Records of files behind HTTP, which a server of ours makes fail, against those of the same files here."""

from __future__ import annotations

import errno
import os
import pickle

import numpy as np
import pytest

from mxtrain.config import Data
from mxtrain.core.errors import DataError, OutOfResources
from mxtrain.data.augment import augment_choice
from mxtrain.data.fields import Field
from mxtrain.data.fingerprint import fingerprint_of
from mxtrain.data.loading import order
from mxtrain.data.loading.assembly import SampleAssembly
from mxtrain.data.loading.loader import Loader, Request
from mxtrain.data.loading.sample_requests import CHUNK_MB
from mxtrain.data.records import heads
from mxtrain.data.records.record_file import index_path, open_records
from mxtrain.data.records.record_sets import open_set
from mxtrain.data.records.record_writer import RecordWriter
from mxtrain.data.storage.options import BLOCK_BYTES, StorageOptions
from mxtrain.data.storage.stores import StoreError
from tests.support.stores.range_server import RangeServer

pytest.importorskip("aiohttp")
pytest.importorskip("fsspec")
NUM_RECORDS, PAYLOAD, BLOCK = 60, 1000, 8000


def write(folder, name="a.rec", seed=0, with_heads=True, labels=1):
    rng = np.random.default_rng(seed)
    with RecordWriter(folder / name) as writer:
        for key in range(NUM_RECORDS):
            label = float(key % 3) if labels == 1 else rng.random(labels).astype(np.float32)
            writer.write(key, label, rng.bytes(PAYLOAD + key))
    path = folder / name
    if with_heads:
        index = index_path(path).read_bytes()
        path.with_suffix(heads.SUFFIX).write_bytes(open_records(path).heads(index))
    return path


@pytest.fixture
def server(tmp_path):
    (tmp_path / "files").mkdir()
    with RangeServer(tmp_path / "files") as running:
        yield running


def opened(server, tmp_path, name="a.rec", patience=5.0, cache=1 << 20):
    return open_set(f"{server.address}/{name}", StorageOptions(str(tmp_path / "c"), cache, patience, BLOCK))


def assert_same(remote, local):
    for position in np.random.default_rng(1).permutation(len(local)).tolist():
        assert bytes(remote.read(position).payload) == bytes(local.read(position).payload)
        assert np.array_equal(remote.read(position).label, local.read(position).label)


@pytest.mark.parametrize("labels", [1, 40])
@pytest.mark.parametrize("with_heads", [True, False])
def test_a_remote_file_is_the_local_one(server, tmp_path, labels, with_heads):
    path = write(server.folder, labels=labels, with_heads=with_heads)
    remote, local = opened(server, tmp_path), open_records(path)
    assert str(remote.path) == f"{server.address}/a.rec"
    assert np.array_equal(remote.labels(), local.labels())
    assert fingerprint_of(remote) == fingerprint_of(local)
    assert np.array_equal(remote.payload_sizes(), local.payload_sizes())
    assert_same(remote, local)
    assert_same(pickle.loads(pickle.dumps(remote)), local)


def test_each_block_is_asked_for_once_and_labels_need_none(server, tmp_path):
    local = open_records(write(server.folder))
    remote = opened(server, tmp_path)
    remote.labels()
    before = len(server.ranges("a.rec"))
    assert before == 0
    assert_same(remote, local)
    num_blocks = len(np.unique(local.chunks(BLOCK)))
    assert len(server.ranges("a.rec")) - before == num_blocks < NUM_RECORDS // 4
    assert_same(opened(server, tmp_path), local)
    assert len(server.ranges("a.rec")) - before <= num_blocks + 3


def test_a_truncated_file_ends_in_words(server, tmp_path):
    path = write(server.folder)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=r"a\.idx does not fit a\.rec .*it goes on to"):
        opened(server, tmp_path)
    path.write_bytes(content[:-8])
    with pytest.raises(DataError, match=r"a\.idx does not fit a\.rec .*ends in the middle of it"):
        opened(server, tmp_path)


def test_no_heads_cost_one_pass_on_a_host(server, tmp_path):
    path = write(server.folder, with_heads=False)
    local = open_records(path)
    assert np.array_equal(opened(server, tmp_path).labels(), local.labels())
    asked = len(server.ranges("a.rec"))
    again = opened(server, tmp_path)
    assert np.array_equal(again.labels(), local.labels()) and len(server.ranges("a.rec")) <= asked + 3


def test_heads_of_another_pack_are_not_used(server, tmp_path):
    other = write(server.folder, "b.rec", seed=1).with_suffix(heads.SUFFIX).read_bytes()
    path = write(server.folder)
    path.with_suffix(heads.SUFFIX).write_bytes(other[:-3])
    assert np.array_equal(opened(server, tmp_path).labels(), open_records(path).labels())


def test_several_files_are_one_set(server, tmp_path):
    for number in range(3):
        write(server.folder, f"t-{number}-of-3.rec", seed=number)
    names = ",".join(f"{server.address}/t-{number}-of-3.rec" for number in range(3))
    options = StorageOptions(str(tmp_path / "c"), 1 << 20, 5.0, BLOCK)
    remote, local = open_set(names, options), open_set(str(server.folder / "t-*.rec"))
    assert fingerprint_of(remote) == fingerprint_of(local)
    assert np.array_equal(remote.chunks(BLOCK), local.chunks(BLOCK))
    assert_same(remote, local)


def test_a_cache_that_holds_a_part_gives_the_same(server, tmp_path):
    local = open_records(write(server.folder))
    assert_same(opened(server, tmp_path, cache=3 * BLOCK), local)
    kept = sum(path.stat().st_size for path in (tmp_path / "c" / "blocks").rglob("*-*"))
    assert kept <= 4 * BLOCK


# Faults


def test_answers_that_fail_or_end_early_are_asked_for_again(server, tmp_path):
    local = open_records(write(server.folder))
    remote = opened(server, tmp_path)
    server.num_failing, server.num_cut = 2, 2
    assert_same(remote, local)


def test_a_store_that_is_away_ends_in_words(server, tmp_path):
    write(server.folder)
    remote = opened(server, tmp_path, patience=2.0)
    server.num_failing = 1 << 30
    with pytest.raises(
        StoreError, match=r"a\.rec: its store does not answer, tried for 2 s .*--storage-patience"
    ):
        remote.read(5)


@pytest.mark.parametrize(
    ("status", "words"), [(403, "refuses access"), (401, "refuses access"), (404, "is gone")]
)
def test_a_refusal_ends_at_once(server, tmp_path, status, words):
    write(server.folder)
    remote = opened(server, tmp_path, patience=60)
    server.statuses["a.rec"] = status
    with pytest.raises(StoreError, match=words):
        remote.read(5)


def length_of(record, *_):
    return {"data": np.float32(len(record.payload))}


def test_no_other_record_is_taken_where_a_store_refuses(server, tmp_path):
    write(server.folder)
    requests = [Request(0, 0, 0, np.arange(8))]
    assembly = SampleAssembly(opened(server, tmp_path), length_of, [Field("data", ())], seed=0, skip_bad=50)
    server.statuses["a.rec"] = 403
    with Loader(assembly, requests) as loader, pytest.raises(StoreError, match="refuses access"):
        next(loader)


def test_a_choice_by_pictures_is_not_made_without_them(server, tmp_path):
    write(server.folder)
    remote = opened(server, tmp_path)
    server.statuses["a.rec"] = 403
    with pytest.raises(StoreError, match="refuses access"):
        augment_choice.of_data(Data(augment="auto"), remote, "classification")


def test_a_file_that_is_replaced_is_noticed(server, tmp_path):
    write(server.folder)
    remote = opened(server, tmp_path)
    first = bytes(remote.read(0).payload)
    write(server.folder, seed=1)
    assert bytes(remote.read(0).payload) == first  # the block is kept
    with pytest.raises(StoreError, match=r"a\.rec has been replaced"):
        remote.read(NUM_RECORDS - 1)


def test_the_new_file_is_read_by_who_opens_it(server, tmp_path):
    write(server.folder)
    opened(server, tmp_path).read(0)
    local = open_records(write(server.folder, seed=1))
    assert_same(opened(server, tmp_path), local)


def test_a_file_that_is_not_there_or_has_no_index_is_named(server, tmp_path):
    with pytest.raises(DataError, match=r"http://.*/none\.rec does not exist"):
        opened(server, tmp_path, "none.rec")
    path = write(server.folder)
    index_path(path).unlink()
    assert_same(opened(server, tmp_path), open_records(path))  # .heads has it too
    path.with_suffix(heads.SUFFIX).unlink()
    with pytest.raises(DataError, match=r"a\.rec: has no \.idx"):
        opened(server, tmp_path)


def test_a_damaged_record_is_found_by_its_checksum(server, tmp_path):
    path = write(server.folder)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    remote = opened(server, tmp_path)
    with pytest.raises(DataError, match=r"http://.*a\.rec: record \d+"):
        for position in range(len(remote)):
            remote.read(position)


def test_a_full_disk_ends_in_words_when_nothing_can_go(server, tmp_path, monkeypatch):
    write(server.folder)
    remote = opened(server, tmp_path)

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OutOfResources, match=r"No space left.*--storage-cache"):
        remote.read(5)


# The order of windows


def test_windows_hold_each_sample_once_and_few_chunks_at_a_time(tmp_path):
    chunks = open_records(write(tmp_path)).chunks(BLOCK)
    samples = order.windowed_order(chunks, 2, 3, 0)
    assert sorted(samples.tolist()) == list(range(NUM_RECORDS))
    visited = list(dict.fromkeys(chunks[samples].tolist()))
    last_use = {chunk: np.flatnonzero(chunks[samples] == chunk)[-1] for chunk in visited}
    first_use = {chunk: np.flatnonzero(chunks[samples] == chunk)[0] for chunk in visited}
    assert visited != sorted(visited)
    for first in range(0, len(visited) - 2, 2):
        assert all(
            last_use[chunk] < first_use[other]
            for chunk in visited[first : first + 2]
            for other in visited[first + 2 :]
        )
    assert not np.array_equal(samples, order.windowed_order(chunks, 2, 3, 1))


def test_a_chunk_is_a_block():
    assert CHUNK_MB << 20 == BLOCK_BYTES
