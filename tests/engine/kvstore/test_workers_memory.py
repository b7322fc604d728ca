"""The memory that workers give a server: what it does with arrays there, and with places that are none."""

from __future__ import annotations

import functools
import os
import random
import socket
import time
from pathlib import Path
from queue import SimpleQueue
from typing import Sequence

import numpy as np
import pytest

from mxtrain import native
from mxtrain.cluster import unix_sockets
from mxtrain.cluster.gateway.routes import NUMBERS
from mxtrain.kvstore import connections, shared_arrays
from mxtrain.kvstore.shared_servers import ADDS_ONLY, HEAD, MEMORY
from mxtrain.kvstore.workers_memory import WorkersMemory
from mxtrain.optim.sums import block_tables
from mxtrain.runtime import mx

SECONDS = 20.0


def given(end: socket.socket, count: int, places: Sequence[Sequence[int]]) -> np.ndarray:
    """The numbers of a new file, which with these arrays is given to a server."""
    file = shared_arrays.open_file(count)
    connections.send_file(end, file)
    end.sendall(HEAD.pack(count, len(places)) + np.array(places, np.int64).tobytes())
    return shared_arrays.map_file(file, count)


@pytest.mark.parametrize("num_workers", [1, 2, 3])
def test_arrays_are_added_where_they_lie(num_workers: int) -> None:
    number, failures = random.SystemRandom().choice(NUMBERS), SimpleQueue[Exception]()
    memory = WorkersMemory(number, num_workers, failures.put)
    sizes = [70_001, 3]
    layout = shared_arrays.lay_out(sizes)
    starts, count = layout.starts, layout.room
    files, ends = [], []
    for rank in range(num_workers):
        end = connections.connect(number, MEMORY, rank, time.monotonic() + SECONDS)
        assert end is not None
        ends.append(end)
    for rank, end in enumerate(ends):
        end.settimeout(SECONDS)
        files.append(given(end, count, [*zip((4, 7), starts, sizes, (0, 0), (0, 0))]))
        assert end.recv(1) == connections.ACCEPTED
        files[-1][: sizes[0]] = np.arange(sizes[0]) * (rank + 1)
        files[-1][starts[1] :][:3] = rank
    stored = mx.nd.zeros((1,))
    memory.add(4, mx.nd.ones((1,)) * 99, stored)
    total = sum(range(1, num_workers + 1))
    for rank, numbers in enumerate(files):
        assert np.array_equal(numbers[: sizes[0]], np.arange(sizes[0], dtype=np.float32) * total)
        assert (numbers[starts[1] :][:3] == rank).all(), "another key's"
    assert stored.asscalar() == 0
    memory.add(5, mx.nd.ones((1,)) * 99, stored)
    assert stored.asscalar() == 99, "an array that is not in memory has been added by ps-lite"
    for end in ends:
        end.close()
    assert failures.empty()


def test_workers_are_taken_in_while_ps_lite_runs() -> None:
    number, failures = random.SystemRandom().choice(NUMBERS), SimpleQueue[Exception]()
    with unix_sockets.private():
        WorkersMemory(number, 1, failures.put)
        end = connections.connect(number, MEMORY, 0, time.monotonic() + SECONDS)
    assert end is not None and failures.empty()
    end.close()


def test_a_socket_that_cannot_be_made_is_a_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(unix_sockets, "FOLDER", tmp_path / "gone")
    failures = SimpleQueue[Exception]()
    WorkersMemory(random.SystemRandom().choice(NUMBERS), 1, failures.put)
    assert isinstance(failures.get(timeout=SECONDS), OSError)


@pytest.mark.parametrize("place", [(0, 1020, 5), (0, -1, 5), (0, 0, 0), (0, 1024, 1)])
def test_a_place_outside_the_file_is_a_failure(place: tuple[int, int, int]) -> None:
    number, failures = random.SystemRandom().choice(NUMBERS), SimpleQueue[Exception]()
    WorkersMemory(number, 1, failures.put)
    end = connections.connect(number, MEMORY, 0, time.monotonic() + SECONDS)
    assert end is not None
    given(end, 1024, [(*place, 0, 0)])
    assert "numbers at" in str(failures.get(timeout=SECONDS))
    end.close()


@pytest.mark.parametrize("has_kernels", [True, False])
@pytest.mark.parametrize("size", [3, 4])
def test_tables_are_taken_in_with_the_arrays_that_they_are_of(
    has_kernels: bool, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server without kernels says that workers have to round for themselves."""
    monkeypatch.setattr(native, "OPERATORS", "kernels" if has_kernels else None)
    number, failures = random.SystemRandom().choice(NUMBERS), SimpleQueue[Exception]()
    WorkersMemory(number, 1, failures.put)
    end = connections.connect(number, MEMORY, 0, time.monotonic() + SECONDS)
    assert end is not None
    end.settimeout(SECONDS)
    file = shared_arrays.open_file(1024)
    numbers = shared_arrays.map_file(os.dup(file), 1024)
    block_tables.fill(shared_arrays.table_at(numbers, 64, 1), np.array([3]))
    connections.send_file(end, file)
    end.sendall(HEAD.pack(1024, 1) + np.array([5, 0, size, 64, 1], np.int64).tobytes())
    if size == 3:
        assert end.recv(1) == (connections.ACCEPTED if has_kernels else ADDS_ONLY)
    else:
        assert "blocks of others" in str(failures.get(timeout=SECONDS))
    os.close(file)
    end.close()


@pytest.mark.parametrize("sizes", [[1], [1024, 1025, 3], [5000, 1, 1]])
def test_no_two_arrays_have_a_page_in_common(sizes: list[int]) -> None:
    layout = shared_arrays.lay_out(sizes)
    starts, count = layout.starts, layout.room
    pages = [set(range(start // 1024, -(-(start + size) // 1024))) for start, size in zip(starts, sizes)]
    assert sum(map(len, pages)) == len(set().union(*pages)) and count // 1024 >= max(set().union(*pages)) + 1


def test_sums_of_many_arrays_in_place_are_those_of_numpy() -> None:
    arrays = [np.random.default_rng(n).integers(-99, 99, 200_000).astype(np.float32) for n in range(5)]
    total = functools.reduce(np.add, arrays)
    shared_arrays.add_in_place(arrays)
    assert all(np.array_equal(array, total) for array in arrays)
