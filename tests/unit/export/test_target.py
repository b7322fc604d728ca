"""An export's folder is whole or absent, whatever happens while it is made."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Iterator

import pytest

from mxtrain.core.errors import OutOfResources, UsageError
from mxtrain.export import target


def write(folder: Path, text: str) -> None:
    with target.made(folder) as aside:
        (aside / target.DESCRIBED).write_text(text)
        (aside / "deep").mkdir()
        (aside / "deep" / "part").write_text(text)


def content(folder: Path) -> dict[str, str]:
    """The files below a folder, hidden ones too."""
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def whole(text: str) -> dict[str, str]:
    return {"x/export.json": text, "x/deep/part": text}


def test_an_export_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    for text in ("old", "new"):
        write(tmp_path / "x", text)
        assert content(tmp_path) == whole(text)


def test_a_folder_is_replaced_by_whatever_name_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("x", "y/z"):
        write(tmp_path / folder, "old")
    (tmp_path / "link").symlink_to("x")
    monkeypatch.chdir(tmp_path / "y")
    for name in ("../link", "z/../../x"):
        write(Path(name), name)
        assert content(tmp_path / "x") == {"export.json": name, "deep/part": name}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "x", "y"]
    assert (tmp_path / "link").is_symlink()


def test_the_folder_that_a_command_is_called_in_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (".", str(tmp_path), "new/.."):
        with pytest.raises(UsageError, match=f"--out {name}: is the folder that this command is called in"):
            write(Path(name), "new")
    with pytest.raises(UsageError, match="--out /: holds other files"):
        write(Path("/"), "new")
    assert not list(tmp_path.iterdir())


def test_nothing_above_the_folder_that_a_command_is_called_in_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "x", "old")
    monkeypatch.chdir(tmp_path / "x" / "deep")
    for name in ("..", "new/../.."):
        with pytest.raises(UsageError, match=f"--out {re.escape(name)}: is the folder that this command"):
            write(Path(name), "new")
    with pytest.raises(UsageError, match=r"--out new/\.\.: holds other files"):
        write(Path("new/.."), "new")
    assert content(tmp_path) == whole("old")


def test_a_failed_export_leaves_the_one_before_and_nothing_else(tmp_path: Path) -> None:
    write(tmp_path / "x", "old")
    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error), target.made(tmp_path / "x") as aside:
            (aside / "part").write_text("new")
            raise error
        assert content(tmp_path) == whole("old")
        assert [path.name for path in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize("moment", ["half-written", "replaced"])
def test_the_next_export_clears_up_after_a_kill(tmp_path: Path, moment: str) -> None:
    write(tmp_path / "x", "old")
    program = (
        "import os, sys\nfrom pathlib import Path\nfrom mxtrain.export import target\n"
        "with target.made(Path(sys.argv[1])) as aside:\n"
        "    (aside / 'export.json').write_text('killed')\n"
        "    if sys.argv[2] == 'replaced':\n"
        "        rename = Path.rename\n"
        "        def renamed(self, to):\n"
        "            rename(self, to)\n"
        "            os.kill(os.getpid(), 9)\n"
        "        Path.rename = renamed\n"
        "    else:\n"
        "        os.kill(os.getpid(), 9)\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, tmp_path / "x", moment], timeout=60)
    assert killed.returncode == -signal.SIGKILL
    with pytest.raises(ValueError), target.made(tmp_path / "x") as aside:
        assert not list(aside.iterdir())
        raise ValueError
    assert content(tmp_path) == whole("old")
    write(tmp_path / "x", "new")
    assert content(tmp_path) == whole("new")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_two_exports_do_not_meet_in_one_folder(tmp_path: Path) -> None:
    with target.made(tmp_path / "x") as aside:
        (aside / target.DESCRIBED).write_text("first")
        with pytest.raises(UsageError, match=r"--out .*x: another export is being made there"):
            write(tmp_path / "x", "second")
    assert content(tmp_path) == {"x/export.json": "first"}


def test_a_folder_of_other_files_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "thesis.tex").write_text("years")
    with pytest.raises(UsageError, match=r"--out .*x: holds other files than an export"):
        write(tmp_path / "x", "new")
    assert content(tmp_path) == {"x/thesis.tex": "years"}
    with pytest.raises(UsageError, match=r"thesis.tex: is a file"):
        write(tmp_path / "x" / "thesis.tex", "new")


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file: cannot be written"):
        write(tmp_path / "file" / "x", "new")


@pytest.fixture
def small_files() -> Iterator[None]:
    """Files that grow no further than 1000 bytes, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[0][1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before[0])
    signal.signal(signal.SIGXFSZ, before[1])


def test_a_full_disk_leaves_the_export_before(tmp_path: Path, small_files: None) -> None:
    write(tmp_path / "x", "old")
    with pytest.raises(OutOfResources, match="make room"):
        write(tmp_path / "x", "new" * 1000)
    assert content(tmp_path) == whole("old")
    assert os.listdir(tmp_path) == ["x"]
