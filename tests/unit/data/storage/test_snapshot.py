from __future__ import annotations

import pytest

from mxtrain.config.values.addresses import Address
from mxtrain.core.errors import DataError
from mxtrain.data.storage import snapshot, stores
from mxtrain.data.storage.options import StorageOptions

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def memory():
    store = fsspec.filesystem("memory")
    store.store.clear()
    yield store
    store.store.clear()


def test_a_folder_comes_whole_and_again_when_it_has_changed(memory, tmp_path):
    options = StorageOptions(str(tmp_path), patience=2)
    for name in ("a/x.txt", "a/b/y.txt"):
        memory.pipe(f"/runs/{name}", name.encode())
    first = snapshot.local_folder(Address("memory://runs/a"), options)
    assert {path.name for path in first.rglob("*") if path.is_file()} == {"x.txt", "y.txt"}
    assert (first / "b" / "y.txt").read_bytes() == b"a/b/y.txt"
    memory.pipe("/runs/a/x.txt", b"other")
    second = snapshot.local_folder(Address("memory://runs/a"), options)
    assert (second / "x.txt").read_bytes() == b"other" and (first / "x.txt").read_bytes() == b"a/x.txt"
    assert snapshot.local_folder(Address("memory://runs/none"), options) is None


def test_a_file_is_copied_whole(memory, tmp_path):
    options = StorageOptions(str(tmp_path), patience=2, block_bytes=100)
    memory.pipe("/a.params", bytes(range(256)))
    assert snapshot.local_copy(Address("memory://a.params"), options).read_bytes() == bytes(range(256))
    with pytest.raises(DataError, match=r"memory://none\.params does not exist"):
        snapshot.local_copy(Address("memory://none.params"), options)


def test_a_changed_file_of_a_store_that_compares_no_tags_is_noticed(memory):
    address = Address("memory://a.bin")
    memory.pipe("/a.bin", b"first")
    known = stores.version(address, 2)
    memory.pipe("/a.bin", b"other")
    with pytest.raises(stores.Changed, match="has been replaced"):
        stores.read(address, 0, 5, known, 2)


def test_what_is_written_is_there_and_what_is_removed_is_not(memory, tmp_path):
    (tmp_path / "x").write_bytes(b"content")
    address = Address("memory://folder/x")
    stores.write(address, str(tmp_path / "x"), 2)
    assert stores.under(Address("memory://folder"), 2) == [address]
    stores.copy(address, str(tmp_path / "y"), 2)
    assert (tmp_path / "y").read_bytes() == b"content"
    stores.remove(address, 2)
    stores.remove(address, 2)
    assert stores.version(address, 2) is None
