"""Operators' code in a file: kept, compiled where it is missing, and not read where others could have written it."""

from __future__ import annotations

import inspect
import os
import types
from pathlib import Path
from typing import Any

import pytest

from mxtrain.runtime.operator_code import MARK, OperatorCode, default_path

SOURCE = '''
def add(data=None, axis=_Null, out=None):
    r"""Adds.

    And more.
    """
    assert data is not None
    return _imperative_invoke({address}, data, axis, "x", out, False)'''
FIRST, SECOND = 94_000_000_000_001, 94_000_000_000_002
_Null = type("Null", (), {})()
made: list[int] = []


def _imperative_invoke(*given: object) -> tuple[object, ...]:
    return given


def make(handle: Any, name: str, function_name: str) -> Any:
    """What mxnet has: it compiles an operator's source."""
    made.append(handle.value)
    local: dict[str, Any] = {}
    exec(SOURCE.format(address=handle.value), globals(), local)
    function = local["add"]
    function.__doc__ = f"{name} as {function_name}"
    return function


def result(code: OperatorCode, address: int = FIRST, maker: Any = make) -> Any:
    """What the operator passes on when it is called."""
    function = code.maker(maker)(types.SimpleNamespace(value=address), "_add", "add")
    assert (function.__doc__, function.__name__, function.__qualname__) == ("_add as add", "add", "add")
    assert str(inspect.signature(function)).startswith("(data=None, axis=<")
    assert function.__globals__ is globals()
    return function(1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with the code of one operator, and its folder."""
    path = tmp_path / "home" / "mxtrain" / "operators.bin"
    code = OperatorCode(path)
    assert result(code) == (FIRST, 1, _Null, "x", None, False)
    code.save()
    made.clear()
    return path


def test_only_the_user_has_the_file_and_its_folder(path: Path) -> None:
    assert [path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777] == [0o600, 0o700]
    assert os.listdir(path.parent) == [path.name]


def test_kept_code_gets_the_address_of_this_process(path: Path) -> None:
    code, written = OperatorCode(path), path.stat().st_ino
    assert result(code, SECOND) == (SECOND, 1, _Null, "x", None, False)
    assert result(code, FIRST) == (FIRST, 1, _Null, "x", None, False)
    assert made == [] and str(MARK) not in SOURCE
    code.save()
    assert path.stat().st_ino == written


def test_what_is_missing_is_made_and_kept(path: Path) -> None:
    code = OperatorCode(path)
    assert code.maker(make)(types.SimpleNamespace(value=FIRST), "_other", "add")(1)[0] == FIRST
    assert made == [FIRST]
    code.save()
    assert len(OperatorCode(path).kept) == 2


def test_functions_of_other_shapes_are_not_kept(tmp_path: Path) -> None:
    code = OperatorCode(tmp_path / "operators.bin")

    def make_with_number(handle: Any, name: str, function_name: str) -> Any:
        return lambda data=5, *, out=None: data

    function = code.maker(make_with_number)(types.SimpleNamespace(value=FIRST), "_add", "add")
    assert function() == 5 and not code.added


def test_another_mxnet_makes_its_own(path: Path, tmp_path: Path) -> None:
    """Of the same version, but with another library, or with sources that somebody has changed."""
    maker = tmp_path / "libmxnet.so"
    maker.write_text("one")
    code = OperatorCode(path, [maker])
    assert code.kept == {}
    result(code)
    code.save()
    assert len(OperatorCode(path, [maker]).kept) == 1
    maker.write_text("another")
    assert OperatorCode(path, [maker]).kept == {}
    maker.unlink()
    assert OperatorCode(path, [maker]).kept == {}


@pytest.mark.parametrize("damage", [b"", b"short", b"\0" * 100])
def test_a_damaged_file_is_none_and_is_written_anew(path: Path, damage: bytes) -> None:
    path.write_bytes(damage)
    code = OperatorCode(path)
    assert code.kept == {}
    assert result(code) == (FIRST, 1, _Null, "x", None, False)
    code.save()
    assert len(OperatorCode(path).kept) == 1


def test_a_changed_byte_is_found(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-10] ^= 1
    path.write_bytes(content)
    assert OperatorCode(path).kept == {}


@pytest.mark.parametrize("mode", [0o020, 0o002])
@pytest.mark.parametrize("which", ["file", "folder"])
def test_what_others_may_write_is_not_read(path: Path, which: str, mode: int) -> None:
    opened = path if which == "file" else path.parent
    opened.chmod(opened.stat().st_mode | mode)
    assert OperatorCode(path).kept == {}


def test_what_belongs_to_another_user_is_not_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    code, written = OperatorCode(path), path.stat().st_ino
    assert code.kept == {}
    result(code)
    code.save()
    assert path.stat().st_ino == written


def test_without_a_folder_to_write_to_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code = OperatorCode(tmp_path / "file" / "mxtrain" / "operators.bin")
    assert result(code) == (FIRST, 1, _Null, "x", None, False)
    code.save()
    assert os.listdir(tmp_path) == ["file"]


def test_the_folder_is_the_users_for_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert default_path("mxnet-1.9.1", Path("/one/mxnet")).parent == Path("/caches/mxtrain")
    for unusable in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", unusable)
        assert default_path("mxnet-1.9.1", Path("/one/mxnet")).parent == Path("/home/ada/.cache/mxtrain")
    assert default_path("mxnet-1.9.1", Path("/one")) != default_path("mxnet-1.9.1", Path("/two"))
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # a user of no name, in a container
    code = OperatorCode(default_path("mxnet-1.9.1", Path("/one/mxnet")))
    assert result(code) == (FIRST, 1, _Null, "x", None, False)
    code.save()
    assert OperatorCode(code.path).kept == {}
