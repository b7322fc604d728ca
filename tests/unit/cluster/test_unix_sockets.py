"""Numbers that no other process has; a sweep deletes only what dead processes have left."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mxtrain.cluster import unix_sockets


def listen_at(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(1)
    return listener


def test_a_number_belongs_to_one_process() -> None:
    numbers = [unix_sockets.reserve() for _ in range(50)]
    assert len(set(numbers)) == 50 and all(map(unix_sockets._is_held, numbers))
    program = "from mxtrain.cluster import unix_sockets; print(*(unix_sockets.reserve() for _ in range(500)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )
    theirs = set(map(int, done.stdout.split()))
    assert len(theirs) == 500 and not theirs & set(numbers)
    assert not any(map(unix_sockets._is_held, list(theirs)[:5])), "they end with the process"


def test_a_sweep_deletes_only_sockets_of_dead_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unix_sockets, "FOLDER", tmp_path)
    alive, held, number = listen_at(tmp_path / "23456"), unix_sockets.reserve(), unix_sockets.reserve()
    listen_at(tmp_path / str(held)).close()  # its owner is about to listen again
    listen_at(tmp_path / "23457").close()
    listen_at(tmp_path / "234567").close()  # of a job over hosts
    elsewhere = listen_at(tmp_path / "2345678")
    listen_at(tmp_path / "23456789012").close()  # nobody's that we know
    (tmp_path / "23458").write_text("a file")
    unix_sockets._held.pop().close()
    listen_at(tmp_path / str(number)).close()
    unix_sockets.sweep()
    assert {path.name for path in tmp_path.iterdir()} == {
        "23456",
        str(held),
        "2345678",
        "23456789012",
        "23458",
    }
    alive.close()
    elsewhere.close()


def test_a_socket_has_its_name_only_once_it_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unix_sockets, "FOLDER", tmp_path)
    path = tmp_path / "234567"
    names: list[str] = []
    listen_at(path).close()  # a dead process's, which had the number
    listen = socket.socket.listen

    def watch(listener: socket.socket, backlog: int) -> None:
        unix_sockets.sweep()
        names.extend(each.name for each in tmp_path.iterdir())
        listen(listener, backlog)

    monkeypatch.setattr(socket.socket, "listen", watch)
    with unix_sockets.listen(234567, 1):
        unix_sockets.sweep()
        assert path.is_socket() and [*tmp_path.iterdir()] == [path] and path.stat().st_mode & 0o077 == 0
    assert len(names) == 1 and names[0].startswith(".mxtrain-")


@pytest.mark.parametrize("umask", [0o000, 0o777])
def test_a_thread_makes_a_private_socket_whoever_has_set_the_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask: int
) -> None:
    """A server has it set for ps-lite as long as it lives, and other threads make sockets meanwhile."""
    monkeypatch.setattr(unix_sockets, "FOLDER", tmp_path)
    modes: list[int] = []

    def make() -> None:
        with unix_sockets.listen(234567, 1):
            modes.append(stat.S_IMODE((tmp_path / "234567").stat().st_mode))

    before = os.umask(umask)
    try:
        for others in (contextlib.nullcontext, unix_sockets.private):
            with others():
                thread = threading.Thread(target=make, daemon=True)
                thread.start()
                thread.join(10)
                assert not thread.is_alive()
        assert os.umask(umask) == umask, "and leaves it as it is"
    finally:
        os.umask(before)
    assert modes == [0o700, 0o700]


def test_a_socket_that_gets_no_name_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unix_sockets, "FOLDER", tmp_path)
    (tmp_path / "234567").mkdir()
    with pytest.raises(OSError):
        unix_sockets.listen(234567, 1)
    assert [*tmp_path.iterdir()] == [tmp_path / "234567"]


def test_dmlc_local_0_asks_for_tcp() -> None:
    assert unix_sockets.namespace({}) and unix_sockets.namespace(
        {"DMLC_LOCAL": "1"}
    ) == unix_sockets.namespace({})
    assert unix_sockets.namespace({"DMLC_LOCAL": "0"}) == ""


def test_tcp_does_where_no_socket_can_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(unix_sockets, "FOLDER", tmp_path)
    assert unix_sockets.namespace({}) and not list(tmp_path.iterdir()), "what was tried out is deleted"
    monkeypatch.setattr(unix_sockets, "FOLDER", tmp_path / "missing")
    assert unix_sockets.namespace({}) == ""
    said = caplog.messages[-1]
    assert str(tmp_path / "missing") in said and "DMLC_LOCAL=0" in said
