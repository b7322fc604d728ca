"""How sums between workers begin and end: late, missing, killed and failed workers, and what is left behind."""

from __future__ import annotations

import functools
import json
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.cluster import unix_sockets
from mxtrain.core.errors import RestartMe
from mxtrain.kvstore import connections
from mxtrain.kvstore.allreduce import peers
from mxtrain.runtime import mx
from tests.support.jobs.allreduce_jobs import DEADLINE_SECONDS, numbers_of, succeed, workers

NOTICED_SECONDS = 2.0
SHARED = Path("/dev/shm")
slow = pytest.mark.slow


def sum_until_failure(with_child: bool, kv: Any, folder: Path) -> None:
    array = mx.nd.ones((300_000,))
    kv.init(["key"], [array])
    if with_child and os.fork() == 0:  # as of a loader; it outlives its parent
        time.sleep(2 * NOTICED_SECONDS)
        os._exit(0)
    try:
        for step in range(10**9):
            array[:] = 1
            kv.pushpull("key", array)
            kv.wait("key")
            assert (array.asnumpy() == kv.num_workers).all()
            (folder / f"{kv.rank}.steps").write_text(str(step))
    except RestartMe as error:
        (folder / f"{kv.rank}.json").write_text(json.dumps([time.monotonic(), str(error)]))
        raise


@pytest.mark.parametrize(
    ("places", "rank"),
    [
        ("aaa", 1),
        ("aab", 1),
        *(pytest.param(*each, marks=slow) for each in (("abc", 0), ("abc", 2), ("aabb", 3))),
    ],
)
def test_all_notice_a_killed_worker(tmp_path: Path, places: str, rank: int) -> None:
    with workers(tmp_path, places, functools.partial(sum_until_failure, places == "aab")) as processes:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not all((tmp_path / f"{each}.steps").exists() for each in range(len(places))):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        processes[rank].kill()
        killed = time.monotonic()
        others = [each for each in range(len(places)) if each != rank]
        assert all(processes[each].wait(DEADLINE_SECONDS) for each in others)
    for each in others:
        noticed, text = json.loads((tmp_path / f"{each}.json").read_text())
        assert text.startswith(f"worker-{rank}: ")
        assert noticed - killed < NOTICED_SECONDS


def die_slowly(kv: Any, folder: Path) -> None:
    """Worker-2 loses its connections one after the other, as one that is killed while others want its core."""
    if kv.rank == 2:
        for connection in (kv._peers.data[0], kv._peers._watched[0]):
            connection.shutdown(socket.SHUT_RDWR)
        time.sleep(NOTICED_SECONDS)
        os._exit(0)
    array = mx.nd.ones((300_000,))
    with pytest.raises(RestartMe, match=r"^worker-2: "):
        for _ in range(10**9):
            kv.pushpull("key", array)
            kv.wait("key")


def test_who_hears_of_a_death_by_another_names_the_dead(tmp_path: Path) -> None:
    succeed(tmp_path, "abc", die_slowly)


def test_an_end_that_comes_before_its_reason_is_waited_for() -> None:
    """Between hosts each connection goes its own way."""
    data, watched = ({each: socket.socketpair() for each in (0, 2)} for _ in range(2))
    own = peers.Peers(1, *({each: ends[0] for each, ends in by_rank.items()} for by_rank in (data, watched)))
    data[2][1].close()
    saying = threading.Timer(0.2, connections.end_for, [watched[2][1], "worker-0: gone"])
    saying.start()
    with pytest.raises(RestartMe, match=r"^worker-0: gone"):
        own.receive(2, np.zeros(1, np.float32))
    saying.join()
    own.close()


def fail_on_the_last(kv: Any, folder: Path) -> None:
    array = mx.nd.ones((300_000,))
    is_last = kv.rank == kv.num_workers - 1
    with pytest.raises(AttributeError if is_last else RestartMe) as raised:
        kv.init(["key"], [array])  # the others may still be here when the last fails
        kv.pushpull("key", "no array" if is_last else array)
        kv.wait("key")
    assert is_last or str(raised.value).startswith(f"worker-{kv.num_workers - 1}: ")


@pytest.mark.parametrize("places", ["aab"])
def test_a_failure_of_one_worker_is_the_end_for_all(tmp_path: Path, places: str) -> None:
    succeed(tmp_path, places, fail_on_the_last)


def register_others(kv: Any, folder: Path) -> None:
    with pytest.raises(RuntimeError, match="other workers"):
        kv.init(["key"], [mx.nd.ones((3 + kv.rank,))])
    with pytest.raises(TypeError, match="float32"):
        kv.init(["key"], [mx.nd.ones((3,), dtype="float64")])


def test_workers_that_sum_other_arrays_are_refused(tmp_path: Path) -> None:
    succeed(tmp_path, "aa", register_others)


def open_and_close(kv: Any, folder: Path) -> None:
    from mxtrain.kvstore.allreduce.store import AllreduceStore

    kv.close()
    hosts, numbers = json.loads((folder / "stores.json").read_text())
    before = _held()
    store = AllreduceStore(kv.rank, numbers, hosts, DEADLINE_SECONDS)
    (array,) = store.new_arrays(["key"], [100_000])
    array[:] = 1
    assert not any((unix_sockets.FOLDER / str(number)).exists() for number in numbers)
    assert _held() > before
    store.pushpull("key", array)
    store.wait("key")
    store.close()
    assert (array.asnumpy() == len(hosts)).all()
    del store, array
    mx.nd.waitall()
    assert _held() == before


def _held() -> tuple[int, int, int]:
    """How many files are open, maps are shared and threads run in this process."""
    maps = Path("/proc/self/maps").read_text().count("memfd:mxtrain")
    return len(os.listdir("/proc/self/fd")), maps, threading.active_count()


@pytest.mark.parametrize("places", ["aa", "aab"])
def test_nothing_is_left_behind(tmp_path: Path, places: str) -> None:
    (tmp_path / "stores.json").write_text(json.dumps([list(places), numbers_of(places)]))
    before = set(SHARED.iterdir())
    succeed(tmp_path, places, open_and_close)
    assert not [path for path in set(SHARED.iterdir()) - before if "mxtrain" in path.name]


def test_a_missing_worker_is_named() -> None:
    numbers = numbers_of("aaa")
    found: list[str] = []

    def work(rank: int) -> None:
        with pytest.raises(RestartMe) as raised:
            peers.connect(rank, numbers, 0.3)
        found.append(str(raised.value))

    threads = [threading.Thread(target=work, args=[rank], daemon=True) for rank in (0, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(found) == 2 and all(text.startswith("worker-1: ") for text in found)
    assert not any((unix_sockets.FOLDER / str(number)).exists() for number in numbers)


def test_a_late_worker_is_waited_for_and_a_stranger_is_not() -> None:
    """Who says nothing sensible is not taken for a worker; one that comes again is."""
    numbers, found = numbers_of("aa"), {}

    def work(rank: int, delay: float) -> None:
        time.sleep(delay)
        found[rank] = peers.connect(rank, numbers, 20)

    threads = [threading.Thread(target=work, args=each, daemon=True) for each in ((0, 0.0), (1, 0.3))]
    for thread in threads:
        thread.start()
    path = unix_sockets.FOLDER / str(numbers[0])
    while not path.exists():
        time.sleep(0.01)
    assert path.stat().st_mode & 0o077 == 0, "only its user reaches it"
    for text in (b"", b"data x\n", b"nothing 1\n", b"data 1\n"):
        _say(path, text)
    for thread in threads:
        thread.join(20)
    numbers_sent, received = np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
    found[1].data[0].sendall(numbers_sent.tobytes())
    found[0].receive(1, received)
    assert np.array_equal(received, numbers_sent)
    for connected in found.values():
        connected.close()


def _say(path: Path, text: bytes) -> None:

    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(str(path))
        stranger.sendall(text)
