"""Which files a folder, a pattern and a list on stdin name, and in which order."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mxtrain.core.errors import DataError
from mxtrain.data import input_files
from mxtrain.data.input_files import PICTURES, Folder


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def test_a_folder_gives_its_pictures_sorted_at_any_depth(tmp_path: Path) -> None:
    touch(
        tmp_path,
        "b/2.png",
        "b/10.JPG",
        "a.webp",
        "c/d/e.gif",
        ".hidden/x.png",
        "b/.x.png",
        "notes.txt",
        "c/Makefile",
    )
    folder = Folder(tmp_path, PICTURES)
    found = [str(path.relative_to(tmp_path)) for path in folder]
    assert found == ["a.webp", "b/10.JPG", "b/2.png", "c/d/e.gif"]
    assert folder.left_out == {".txt": 1, "Makefile": 1}
    assert len(list(Folder(tmp_path))) == 6


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else for a while")
def test_a_folder_that_may_not_be_read_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o755)
    touch(tmp_path, "a/x.png", "b/y.png", "c/z.png")
    (tmp_path / "b").chmod(0)
    monkeypatch.chdir(tmp_path)  # what lies above need not be open to others
    folder = Folder(Path(), PICTURES)
    os.seteuid(65534)
    try:
        found = [each.name for each in folder]
    finally:
        os.seteuid(0)
    assert found == ["x.png", "z.png"] and folder.problems == ["b: cannot be read (Permission denied)"]


def test_links_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    touch(tmp_path / "outside", "x.png")
    touch(tmp_path / "in", "a/y.png")
    (tmp_path / "in" / "a" / "up").symlink_to(tmp_path / "in")
    (tmp_path / "in" / "out").symlink_to(tmp_path / "outside")
    (tmp_path / "in" / "z.png").symlink_to(tmp_path / "outside" / "x.png")
    found = [str(path.relative_to(tmp_path / "in")) for path in Folder(tmp_path / "in", PICTURES)]
    assert found == ["a/y.png", "out/x.png", "z.png"]


def test_a_pattern_is_none_where_such_a_file_exists(tmp_path: Path) -> None:
    touch(tmp_path, "a1.png", "a2.png", "a[12].png", "d/e/a3.png")
    assert input_files.matching(tmp_path / "a[12].png") == [tmp_path / "a[12].png"]
    assert input_files.matching(tmp_path / "a?.png") == [tmp_path / "a1.png", tmp_path / "a2.png"]
    assert input_files.matching(tmp_path / "**" / "a3.png") == [tmp_path / "d" / "e" / "a3.png"]
    assert input_files.matching(tmp_path / "none.png") == [tmp_path / "none.png"]
    with pytest.raises(DataError, match="no file matches the pattern"):
        input_files.matching(tmp_path / "b*.png")


def read(content: bytes) -> list[object]:
    reading, writing = os.pipe()
    os.write(writing, content)
    os.close(writing)
    try:
        return list(input_files.listed(reading))
    finally:
        os.close(reading)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"a.png", ["a.png"]),
        (b"a.png\nb c.png\r\n\n d.png\n", ["a.png", "b c.png", " d.png"]),
        (b"a\nb.png\0c.png\0", ["a\nb.png", "c.png"]),
        (b"\xff\xfe.png\n", [os.fsdecode(b"\xff\xfe.png")]),
    ],
)
def test_a_list_holds_a_path_a_line_or_before_each_nul(content: bytes, expected: list[str]) -> None:
    assert read(content) == [Path(each) for each in expected]


@pytest.mark.parametrize(
    "start", [b"\xff\xd8\xff\xe0", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"II*\0", b"RIFF\x10\x20\x30\0WEBP"]
)
def test_a_picture_is_no_list(start: bytes) -> None:
    assert read(start + b"\0\n" * 40) == [start + b"\0\n" * 40]


def test_a_list_that_comes_slowly_says_so() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"a.png\nb.p")
    found = input_files.listed(reading)
    assert next(found) == Path("a.png") and next(found) is None
    os.write(writing, b"ng\n")
    assert next(found) == Path("b.png") and next(found) is None
    os.close(writing)
    assert list(found) == []
    os.close(reading)
