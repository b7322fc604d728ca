"""Files in an S3 server of its own, moto's, behind a link that delays and fails, read in this process."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from mxtrain.config.values.addresses import Address
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.records.record_sets import open_set
from mxtrain.data.records.record_upload import upload
from mxtrain.data.records.record_writer import RecordWriter
from mxtrain.data.storage import filesystems, stores
from mxtrain.data.storage.options import StorageOptions
from mxtrain.data.storage.stores import StoreError
from tests.support.stores.s3_keys import checking_keys

pytest.importorskip("moto")
pytest.importorskip("s3fs")
NUM_SHARDS, NUM_RECORDS, BLOCK, PATIENCE = 3, 40, 8000, 20.0


@pytest.fixture
def bucket(link, tmp_path):
    """A bucket of its own."""
    address = Address(f"s3://{tmp_path.name.replace('_', '-').lower()[:50]}-{time.monotonic_ns()}")
    filesystems.filesystem("s3").mkdir(str(address))
    return address


@pytest.fixture
def local(bucket, tmp_path):
    """Shards on this disk, which are in the bucket too."""
    rng = np.random.default_rng(0)
    for shard in range(NUM_SHARDS):
        path = tmp_path / f"t-{shard}-of-{NUM_SHARDS}.rec"
        with RecordWriter(path) as writer:
            for key in range(NUM_RECORDS):
                writer.write(key, float(key % 3), rng.bytes(1000))
        upload(path, bucket / "packs")
    return tmp_path / "t-*.rec"


def opened(bucket, tmp_path, patience=PATIENCE):
    return open_set(f"{bucket}/packs/t-*.rec", StorageOptions(str(tmp_path / "c"), 1 << 20, patience, BLOCK))


def assert_same(remote, local):
    expected = open_set(str(local))
    remote.will_need(np.arange(len(remote)))
    for position in np.random.default_rng(1).permutation(len(expected)).tolist():
        assert bytes(remote.read(position).payload) == bytes(expected.read(position).payload)
    assert np.array_equal(remote.labels(), expected.labels())


def test_names_are_listed_written_and_removed(bucket, tmp_path):
    (tmp_path / "x").write_bytes(b"content")
    names = [bucket / "folder" / name for name in ("a-1.rec", "a-2.rec", "b.rec", "deep/c.rec")]
    for each in names:
        stores.write(each, str(tmp_path / "x"), PATIENCE)
    found, known = stores.matching(bucket / "folder" / "a-*.rec", PATIENCE)
    assert found == names[:2] and known == {each: stores.version(each, PATIENCE) for each in names[:2]}
    assert stores.matching(bucket / "*" / "b.rec", PATIENCE)[0] == [names[2]]
    assert stores.matching(bucket / "**" / "c.rec", PATIENCE) == ([names[3]], {})
    assert stores.under(bucket / "folder", PATIENCE) == sorted(names)
    assert stores.under(bucket / "none", PATIENCE) == []
    stores.copy(names[0], str(tmp_path / "y"), PATIENCE)
    assert (tmp_path / "y").read_bytes() == b"content"
    stores.remove(names[0], PATIENCE)
    stores.remove(names[0], PATIENCE)
    assert stores.version(names[0], PATIENCE) is None
    with pytest.raises(DataError, match=r"a-1\.rec does not exist"):
        stores.copy(names[0], str(tmp_path / "y"), PATIENCE)


def test_one_list_has_the_versions_of_many_files(bucket, link, tmp_path):
    (tmp_path / "x").write_bytes(b"content")
    names = [bucket / f"a-{number}.rec" for number in range(5)]
    for each in names:
        stores.write(each, str(tmp_path / "x"), PATIENCE)
    before = link.num_requests
    known = stores.versions([*names, bucket / "a-none.rec"], PATIENCE)
    assert link.num_requests - before == 1
    assert known == {each: stores.version(each, PATIENCE) for each in names}
    assert stores.versions([Address("s3://no-such-bucket/a"), Address("s3://no-such-bucket/b")], 5) == {}


def test_files_are_asked_for_one_by_one_where_a_list_is_refused(bucket, tmp_path, monkeypatch):
    (tmp_path / "x").write_bytes(b"content")
    names = [bucket / "a.rec", bucket / "a.idx"]
    stores.write(names[0], str(tmp_path / "x"), PATIENCE)

    def refused(*_):
        raise PermissionError("Access Denied")

    monkeypatch.setattr(filesystems, "listed", refused)
    assert stores.versions(names, PATIENCE) == {names[0]: stores.version(names[0], PATIENCE)}


def test_shards_are_opened_with_few_requests_and_read_with_one_a_block(bucket, local, link, tmp_path):
    before = link.num_requests
    remote = opened(bucket, tmp_path)
    assert link.num_requests - before == 1 + NUM_SHARDS  # a list, and of each its .heads
    assert_same(remote, local)
    num_blocks = sum(len(file.blocks()) for file in remote.remotes)
    assert num_blocks > 12 and link.num_requests - before == 1 + NUM_SHARDS + num_blocks
    before = link.num_requests
    assert_same(opened(bucket, tmp_path), local)
    assert link.num_requests - before == 1


def test_a_file_that_is_replaced_or_gone_is_noticed(bucket, local, tmp_path):
    remote = opened(bucket, tmp_path)
    first = bytes(remote.read(0).payload)
    target = bucket / "packs" / f"t-0-of-{NUM_SHARDS}.rec"
    (tmp_path / "other").write_bytes(bytes(stores.existing(target, PATIENCE).num_bytes))
    stores.write(target, str(tmp_path / "other"), PATIENCE)
    assert bytes(remote.read(0).payload) == first  # its block is here
    with pytest.raises(StoreError, match=r"t-0-of-3\.rec has been replaced"):
        remote.read(NUM_RECORDS - 1)
    stores.remove(target, PATIENCE)
    with pytest.raises(StoreError, match=r"t-0-of-3\.rec is gone from its store"):
        remote.read(NUM_RECORDS // 2)


@pytest.mark.parametrize("name", ["a b/c.rec", "a b/c-*.rec"])
def test_a_bucket_that_cannot_be_is_refused_at_once(link, tmp_path, name):
    with pytest.raises(UsageError, match=r"s3://a b/c.*: is no address of a file in its store"):
        open_set(f"s3://{name}", StorageOptions(str(tmp_path / "c"), patience=60))
    assert link.num_requests == 0


def test_keys_that_a_store_does_not_take_end_in_words(bucket, local, server, tmp_path):
    remote = opened(bucket, tmp_path)
    with checking_keys(server):
        with pytest.raises(StoreError, match=r"t-0-of-3\.rec: its store refuses access"):
            remote.read(0)
        with pytest.raises(StoreError, match=r"t-\*\.rec: its store refuses access"):
            opened(bucket, tmp_path)
    assert_same(remote, local)


def test_cut_slow_and_absent_answers_are_waited_for(bucket, local, link, tmp_path):
    remote = opened(bucket, tmp_path)
    link.bytes_per_second, link.delay, link.cut_after = 500_000, 0.02, 3000

    def fall():
        link.is_down = True
        time.sleep(1.5)
        link.is_down = False

    threading.Timer(0.2, fall).start()
    assert_same(remote, local)
    assert link.cut_after is None


def test_a_store_that_stays_away_ends_in_words(bucket, local, link, tmp_path):
    remote = opened(bucket, tmp_path, patience=1.0)
    link.is_down = True
    with pytest.raises(StoreError, match=r"its store does not answer, tried for 1 s .*--storage-patience"):
        remote.read(0)
