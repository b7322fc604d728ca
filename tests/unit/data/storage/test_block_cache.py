from __future__ import annotations

import functools
import multiprocessing
import os
import signal
import threading
import time

import pytest

from mxtrain.core.errors import OutOfResources
from mxtrain.data.storage import cache_room
from mxtrain.data.storage.block_cache import BlockCache
from mxtrain.data.storage.cache_room import CacheRoom
from mxtrain.data.storage.options import StorageOptions

BLOCK = bytes(range(256)) * 4


def options(folder, blocks=8):
    return StorageOptions(str(folder), blocks * (len(BLOCK) + 4), patience=5, block_bytes=len(BLOCK))


def blocks_of(folder):
    return sorted(path.name for path in folder.rglob("*-*"))


def test_a_block_is_fetched_once(tmp_path):
    fetched = []

    def fetch():
        fetched.append(1)
        return BLOCK

    for _ in range(2):
        cache = BlockCache(options(tmp_path), "a")
        for _ in range(2):
            assert cache.block(0, len(BLOCK), fetch).read(3, 5) == BLOCK[3:8]
    assert len(fetched) == 1


def test_files_have_blocks_of_their_own(tmp_path):
    assert BlockCache(options(tmp_path), "a").block(0, 2, lambda: b"ab").read(0, 2) == b"ab"
    assert BlockCache(options(tmp_path), "b").block(0, 2, lambda: b"cd").read(0, 2) == b"cd"


@pytest.mark.parametrize("damage", [b"", b"x", BLOCK, b"\0" * (len(BLOCK) + 4), BLOCK + b"\0\0\0\0\0"])
def test_a_damaged_block_is_fetched_again(tmp_path, damage):
    BlockCache(options(tmp_path), "a").ensure(0, len(BLOCK), lambda: BLOCK)
    [path] = tmp_path.rglob(f"0-{len(BLOCK)}")
    path.write_bytes(damage)
    assert BlockCache(options(tmp_path), "a").block(0, len(BLOCK), lambda: BLOCK).read(0, 9) == BLOCK[:9]


def test_the_blocks_that_were_not_used_for_longest_go(tmp_path):
    cache = BlockCache(options(tmp_path, blocks=2), "a")
    for number in range(2):
        cache.ensure(number, number + len(BLOCK), lambda: BLOCK)
        time.sleep(0.02)
    assert cache.touch(0, len(BLOCK))
    cache.ensure(2, 2 + len(BLOCK), lambda: BLOCK)
    assert blocks_of(tmp_path) == [f"0-{len(BLOCK)}", f"2-{2 + len(BLOCK)}"]


def test_the_cache_is_looked_at_once_for_many_blocks(tmp_path, monkeypatch):
    looked, blocks = [], CacheRoom._blocks
    monkeypatch.setattr(CacheRoom, "_blocks", lambda room: looked.append(1) or blocks(room))
    cache = BlockCache(options(tmp_path, blocks=320), "a")
    for number in range(640):
        cache.ensure(number, number + len(BLOCK), lambda: BLOCK)
    assert 280 <= len(blocks_of(tmp_path)) <= 330
    assert len(looked) < 640 // 2


def test_a_block_that_has_gone_can_still_be_read_by_who_has_it(tmp_path):
    cache = BlockCache(options(tmp_path), "a")
    block = cache.block(0, len(BLOCK), lambda: BLOCK)
    cache_room.of_folder(tmp_path / "blocks", options(tmp_path)).shrink(0)
    assert not blocks_of(tmp_path) and block.read(0, 4) == BLOCK[:4]


def test_threads_fetch_a_block_once(tmp_path):
    fetched, threads = [], []

    def fetch(number):
        fetched.append(number)
        time.sleep(0.1 if number == 0 else 0)
        return BLOCK

    def read_all(cache):
        for number in range(400):
            cache.ensure(number, number + len(BLOCK), functools.partial(fetch, number))

    for _ in range(6):
        cache = BlockCache(options(tmp_path, blocks=500), "a")
        threads.append(threading.Thread(target=read_all, args=[cache]))
        threads[-1].start()
    for thread in threads:
        thread.join(20)
    assert fetched == list(range(400))
    assert not list(tmp_path.rglob("*.new"))


def test_a_process_that_is_killed_while_it_fetches_is_replaced(tmp_path):
    child = multiprocessing.get_context("fork").Process(
        target=lambda: BlockCache(options(tmp_path), "a").ensure(0, len(BLOCK), lambda: time.sleep(60))
    )
    child.start()
    while not list(tmp_path.rglob("*.new")):
        time.sleep(0.01)
    threading.Timer(0.3, os.kill, (child.pid, signal.SIGKILL)).start()
    started = time.monotonic()
    assert BlockCache(options(tmp_path), "a").block(0, len(BLOCK), lambda: BLOCK).read(0, 4) == BLOCK[:4]
    assert time.monotonic() - started < 4
    child.join(10)


def test_a_failed_fetch_leaves_no_block(tmp_path):
    def fetch():
        raise KeyError

    with pytest.raises(KeyError):
        BlockCache(options(tmp_path), "a").ensure(0, len(BLOCK), fetch)
    assert BlockCache(options(tmp_path), "a").block(0, len(BLOCK), lambda: BLOCK).read(0, 1) == b"\0"


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutOfResources, match="--storage-cache"):
        BlockCache(options(tmp_path / "file"), "a")
