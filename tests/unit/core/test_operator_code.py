"""Operators' code in a file: kept, compiled where it is missing, and not read where others could have written it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from mxtrain.core.operator_code import MARK, OperatorCode, default_path

SOURCE = '''
def add(data=None, out=None):
    r"""Adds."""
    assert data is not None
    return _imperative_invoke({address}, data, out, False)'''
FIRST, SECOND = 94_000_000_000_001, 94_000_000_000_002


def result(code: OperatorCode, address: int = FIRST) -> Any:
    """What the operator passes on when it is called."""
    own: dict[str, Any] = {"_imperative_invoke": lambda *given: given}
    made: dict[str, Any] = {}
    code.execute(own, SOURCE.format(address=address), None, made)
    assert set(own) == {"_imperative_invoke", "__builtins__"}
    assert made["add"].__doc__ == "Adds."
    return made["add"](1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with the code of one operator, and its folder."""
    path = tmp_path / "home" / "mxtrain" / "operators.bin"
    code = OperatorCode(path)
    assert result(code) == (FIRST, 1, None, False)
    code.save()
    return path


def test_only_the_user_has_the_file_and_its_folder(path: Path) -> None:
    assert [path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777] == [0o600, 0o700]
    assert os.listdir(path.parent) == [path.name]


def test_kept_code_gets_the_address_of_this_process(path: Path) -> None:
    code, written = OperatorCode(path), path.stat().st_ino
    assert result(code, SECOND) == (SECOND, 1, None, False)
    assert result(code, FIRST) == (FIRST, 1, None, False)
    assert len(code.kept) == 1
    assert list(map(id, code.used.values())) == list(map(id, code.kept.values()))  # nothing was compiled
    code.save()
    assert path.stat().st_ino == written


def test_missing_code_is_compiled_and_kept(path: Path) -> None:
    code, made = OperatorCode(path), {}
    code.execute({}, "other = 5", None, made)
    assert made == {"other": 5}
    result(code)
    code.save()
    assert len(OperatorCode(path).kept) == 2


def test_the_rest_is_as_with_exec() -> None:
    code = OperatorCode(Path("/nowhere/operators.bin"))
    given: dict[str, Any] = {}
    code.execute({}, "value = 1", given)
    code.execute({}, compile("other = value + 1", "", "exec"), given)
    assert [given["value"], given["other"]] == [1, 2]
    here: list[int] = []
    code.execute({}, "here.append(3)")
    assert here == [3]
    with pytest.raises(SyntaxError):
        code.execute({}, "def")
    assert str(MARK) not in SOURCE


@pytest.mark.parametrize("damage", [b"", b"short", b"\0" * 100])
def test_a_damaged_file_is_none_and_is_written_anew(path: Path, damage: bytes) -> None:
    path.write_bytes(damage)
    code = OperatorCode(path)
    assert code.kept == {}
    assert result(code) == (FIRST, 1, None, False)
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
    assert result(code) == (FIRST, 1, None, False)
    code.save()
    assert os.listdir(tmp_path) == ["file"]


def test_the_folder_is_the_users_for_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert default_path("mxnet-1.9.1").parent == Path("/caches/mxtrain")
    for unusable in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", unusable)
        assert default_path("mxnet-1.9.1").parent == Path("/home/ada/.cache/mxtrain")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # a user of no name, in a container
    code = OperatorCode(default_path("mxnet-1.9.1"))
    assert result(code) == (FIRST, 1, None, False)
    code.save()
    assert OperatorCode(code.path).kept == {}
