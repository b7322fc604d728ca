"""Links in a source, and entries that have a file's name but are no regular files."""

from __future__ import annotations

import os

import pytest

from mxtrain.core.errors import DataError
from mxtrain.data.sources.opening import open_source
from tests.support.data.source_files import touch, write


def test_links_are_followed_but_not_in_circles(tmp_path):
    touch(tmp_path / "elsewhere" / "1.png")
    touch(tmp_path / "images" / "a" / "2.png")
    (tmp_path / "images" / "a" / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "images" / "a" / "circle").symlink_to(tmp_path / "images" / "a")
    found = open_source(tmp_path / "images")
    assert [item.name for item in found.items] == ["a/2.png", "a/linked/1.png"]


@pytest.mark.parametrize("class_name", ["a", "z"])
@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("up", ".."),
        ("far/up", "../../.."),  # a folder that holds the source
        ("other", "../m"),
        ("other", "../m/deep"),
        ("2.png", "../m/1.png"),
        ("other", "/"),
    ],
)
def test_a_link_that_leads_into_another_class_is_refused(tmp_path, class_name, link, target):
    source = tmp_path / "images"
    for name in ("m/1.png", "m/deep/1.png", f"{class_name}/far/1.png"):
        touch(source / name)
    (source / class_name / link).symlink_to(target)
    with pytest.raises(DataError, match=f"{source / class_name / link} is a link .*: remove it"):
        open_source(source)


@pytest.mark.parametrize("target", ["m", ".", "m/deep"])
@pytest.mark.parametrize("class_name", ["a", "z"])
def test_a_class_that_is_a_link_to_another_is_refused(tmp_path, class_name, target):
    touch(tmp_path / "m" / "deep" / "1.png")
    (tmp_path / class_name).symlink_to(target)
    with pytest.raises(DataError, match=f"{tmp_path / class_name} is .*: remove it"):
        open_source(tmp_path)


def test_no_folder_is_gone_through_twice(tmp_path):
    source = tmp_path / "images"
    touch(tmp_path / "elsewhere" / "1.png")
    touch(source / "a" / "2.png")
    touch(source / "a" / "deep" / "3.png")
    touch(source / ".git" / "annex" / "4.png")
    (source / "a" / "more").symlink_to("deep")
    (source / "a" / "one").symlink_to(tmp_path / "elsewhere")
    (source / "a" / "two").symlink_to(tmp_path / "elsewhere")
    (source / "a" / "4.png").symlink_to("../.git/annex/4.png")
    (source / "a" / "5.png").symlink_to("5.png")
    found = open_source(source)
    assert [item.name for item in found.items] == [
        "a/2.png",
        "a/4.png",
        "a/5.png",
        "a/deep/3.png",
        "a/one/1.png",
    ]
    assert found.read(found.items[1]) == b"4.png"
    assert "left out 2 link(s) to folders that are gone through already" in found.warnings
    touch(source / "b" / "6.png")
    (source / "b" / "three").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataError, match=r"b/three is the same folder as .*a/one, of another class"):
        open_source(source)


@pytest.mark.parametrize(
    "kind", [None, "folder", "csv", "lst", "rec", "tfrecord", "webdataset", "hdf5", "lmdb", "text"]
)
def test_a_source_that_is_a_pipe_is_not_waited_for(tmp_path, kind):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match=r"cannot read .*pipe: a named pipe, not a file"):
        open_source(tmp_path / "pipe", kind)


@pytest.mark.parametrize("name", ["1.tar", "1.rec", "1.tfrecord", "data.mdb"])
def test_a_folder_of_files_with_a_pipe_among_them(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(DataError, match=f"cannot read .*{name}: a named pipe, not a file"):
        open_source(tmp_path)


def test_a_shard_that_is_a_link_to_nothing_is_not_left_out(tmp_path):
    (tmp_path / "1.tar").symlink_to("elsewhere.tar")
    with pytest.raises(DataError, match=r"cannot read .*1\.tar: No such file"):
        open_source(tmp_path)


def test_listed_pipes_and_links_to_nothing_are_read_as_errors(tmp_path):
    (tmp_path / "texts").mkdir()
    os.mkfifo(tmp_path / "texts" / "a.txt")
    (tmp_path / "texts" / "b.txt").symlink_to("nothing")
    (tmp_path / "texts" / "c.txt").symlink_to("c.txt")
    os.mkfifo(tmp_path / "1.jpg")
    for found, reasons in [
        (open_source(tmp_path / "texts"), ["named pipe", "No such file", "symbolic links"]),
        (open_source(write(tmp_path / "a.csv", "1.jpg,a\n")), ["named pipe"]),
    ]:
        for item, reason in zip(found.items, reasons):
            with pytest.raises(OSError, match=reason):
                found.read(item)
