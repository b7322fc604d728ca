"""Sources that are folders, lists and text; tests/unit/pack/test_sources_binary.py has the databases and archives."""

from __future__ import annotations

import json

import pytest

from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.sources.item import BadItem
from mxtrain.data.sources.labels import resolve_labels
from mxtrain.data.sources.opening import SourceOptions, open_source
from mxtrain.data.sources.recognise import recognise
from mxtrain.data.sources.samples import open_samples
from tests.support.data.source_files import touch, write


def named(found):
    return [(item.name, item.label) for item in found.items]


# Folders


def test_a_folder_is_a_class_however_deep_its_images_lie(tmp_path):
    for name in [
        "b/1.png",
        "b/deep/er/2.JPG",
        "a/3.jpeg",
        "b/.hidden.png",
        "b/.git/4.png",
        "b/notes.txt",
        "5.png",
    ]:
        touch(tmp_path / name)
    (tmp_path / "empty").mkdir()
    found = open_source(tmp_path)
    assert found.class_names == ["a", "b"]
    assert named(found) == [("a/3.jpeg", 0), ("b/1.png", 1), ("b/deep/er/2.JPG", 1)]
    assert found.read(found.items[0]) == b"3.jpeg"
    remarks = "\n".join(found.warnings)
    assert "empty has no images" in remarks
    assert "1 image(s) directly in" in remarks
    assert "1 file(s) that are no images" in remarks


@pytest.mark.parametrize(
    "name", ["with\ttab", "with\nbreak", "end\n", "re\rturn", b"\xff".decode("utf-8", "surrogateescape")]
)
def test_a_class_name_that_no_list_can_hold_is_refused(tmp_path, name):
    touch(tmp_path / name / "1.png")
    with pytest.raises(DataError, match="rename it"):
        open_source(tmp_path)


def test_a_stamp_changes_with_its_file(tmp_path):
    touch(tmp_path / "a" / "1.png")
    found = open_source(tmp_path)
    before = found.stamp(found.items[0])
    assert found.stamp(found.items[0]) == before
    (tmp_path / "a" / "1.png").write_bytes(b"longer than before")
    assert found.stamp(found.items[0]) != before
    (tmp_path / "a" / "1.png").unlink()
    assert found.stamp(found.items[0]) != before


# Lists


def test_a_lst_as_mxnets_im2rec_writes_it(tmp_path):
    touch(tmp_path / "cats" / "1.jpg")
    path = write(tmp_path / "pets.lst", "5\t1.000000\tcats/1.jpg\n9\t0.000000\tdogs/with space.jpg\n\n")
    found = open_source(path)
    assert named(found) == [("cats/1.jpg", 1), ("dogs/with space.jpg", 0)]
    assert found.class_names == ["0", "1"]
    assert found.read(found.items[0]) == b"1.jpg"
    assert [type(item.label) for item in found.items] == [int, int]
    with pytest.raises(FileNotFoundError):
        found.read(found.items[1])


def test_a_root_is_where_paths_begin(tmp_path):
    touch(tmp_path / "images" / "1.jpg")
    path = write(tmp_path / "pets.lst", "0\t0\t1.jpg\n")
    found = open_source(path, options=SourceOptions(root=tmp_path / "images"))
    assert found.read(found.items[0]) == b"1.jpg"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "x/1.jpg,dog\nx/2.jpg,cat\n"),
        ("a.csv", "path,label\nx/1.jpg,dog\nx/2.jpg,cat\n"),
        ("a.csv", "\ufefffile;class\r\nx/1.jpg;dog\r\nx/2.jpg;cat\r\n"),
        ("a.tsv", "x/1.jpg\tdog\nx/2.jpg\tcat\n\n"),
        ("a.csv", '"x/1.jpg","dog"\nx/2.jpg, cat\n'),
    ],
)
def test_tables_with_and_without_header(tmp_path, name, text):
    found = open_source(write(tmp_path / name, text))
    assert found.class_names == ["cat", "dog"]
    assert named(found) == [("x/1.jpg", 1), ("x/2.jpg", 0)]


@pytest.mark.parametrize("first", ["x/1.ico", "x/1.gif", "x/scan 1"])
def test_a_first_line_that_names_a_picture_is_no_header(tmp_path, first):
    touch(tmp_path / "x" / "scan 1")
    found = open_source(write(tmp_path / "a.csv", f"{first},dog\nx/2.jpg,cat\n"))
    assert named(found) == [(first, 1), ("x/2.jpg", 0)]


ODD = "\x0b \x0c \x1c \x1d \x1e \x85 \u2028 \u2029"  # Python takes each for a line break


@pytest.mark.parametrize(
    ("name", "row"), [("a.lst", "0\t0\t{path}"), ("a.csv", "{path},{label}"), ("a.csv", '"{path}","{label}"')]
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_only_a_line_break_ends_a_line(tmp_path, name, row, end):
    paths = [f"{ODD}/{ODD}1.jpg", "2.jpg"]
    touch(tmp_path / paths[0])
    rows = [row.format(path=path, label=f"a{ODD}b") for path in paths]
    found = open_source(write(tmp_path / name, "".join(line + end for line in rows)))
    assert named(found) == [(path, 0) for path in paths]
    assert found.read(found.items[0]) == f"{ODD}1.jpg".encode()
    if name == "a.csv":
        assert found.class_names == [f"a{ODD}b"]


@pytest.mark.parametrize("num_letters", [131072, 131073, 3_000_000])
def test_a_cell_may_be_long(tmp_path, num_letters):
    label = "ab" + "c" * num_letters
    found = open_source(write(tmp_path / "a.csv", f"1.jpg,{label}\n2.jpg,d\n"))
    assert found.class_names == [label, "d"]


def test_several_labels(tmp_path):
    numbers = write(tmp_path / "n.csv", "path,cat,dog\n1.jpg,0,1\n2.jpg,1,1\n")
    with pytest.raises(UsageError, match="2 labels: add --multi-label"):
        open_source(numbers)
    found = open_source(numbers, options=SourceOptions(multi_label=True))
    assert named(found) == [("1.jpg", (0.0, 1.0)), ("2.jpg", (1.0, 1.0))]
    assert found.class_names == ["cat", "dog"]
    names = write(tmp_path / "w.csv", "1.jpg,dog\n2.jpg,cat,dog\n3.jpg,\n")
    found = open_source(names, options=SourceOptions(multi_label=True))
    assert named(found) == [("1.jpg", (0.0, 1.0)), ("2.jpg", (1.0, 1.0)), ("3.jpg", (0.0, 0.0))]
    joined = write(tmp_path / "j.csv", "1.jpg,dog; cat\n2.jpg,cat\n3.jpg,\n")
    found = open_source(joined, options=SourceOptions(multi_label=True))
    assert named(found) == [("1.jpg", (1.0, 1.0)), ("2.jpg", (1.0, 0.0)), ("3.jpg", (0.0, 0.0))]
    assert found.class_names == ["cat", "dog"]
    listed = write(tmp_path / "k.csv", "1.jpg,2;0\n2.jpg,1\n3.jpg,\n")
    found = open_source(listed, options=SourceOptions(multi_label=True))
    assert named(found) == [
        ("1.jpg", (1.0, 0.0, 1.0)),
        ("2.jpg", (0.0, 1.0, 0.0)),
        ("3.jpg", (0.0, 0.0, 0.0)),
    ]
    assert found.class_names == ["0", "1", "2"]
    for wrong in ("1.jpg,1;-2\n", "1.jpg,1;0.5\n", "1.jpg,1;1e9\n"):
        with pytest.raises(DataError, match="among classes, which are whole numbers from 0 to 65535"):
            open_source(write(tmp_path / "l.csv", wrong), options=SourceOptions(multi_label=True))
    lst = write(tmp_path / "a.lst", "0\t0.5\t-1\t1.jpg\n1\t2\t3\t2.jpg\n")
    assert named(open_source(lst, options=SourceOptions(multi_label=True))) == [
        ("1.jpg", (0.5, -1.0)),
        ("2.jpg", (2.0, 3.0)),
    ]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.lst", "0\t1.jpg\n", "line 1 is not"),
        ("a.lst", "0\t0\t1.jpg\n1\tcat\t2.jpg\n", "line 2 has a label that is no number"),
        ("a.csv", 'path,label\n\n"1.jpg",0\n\n2.jpg\n', "line 5 is not"),
        ("a.csv", "path,label\n1.jpg,0\n2.jpg\n", "line 3 is not"),
        ("a.csv", b"\xff\xfe1", "not UTF-8"),
        ("a.csv", "path,label\n", "nothing to pack"),
        ("a.csv", "1.jpg,\n2.jpg,3\n", "1 items have no label"),
        ("a.csv", "1.jpg,nan\n", "finite"),
        ("a.csv", "1.jpg,16777217\n", "whole numbers up to 16777216"),
        ("a.csv", "1.jpg,0\n2.jpg,-1e39\n", r"label -1e\+39, and records hold numbers up to"),
        ("a.csv", '1.jpg,0\n"2.jpg,1\n3.jpg,0\n', "line 2 has a quote that nothing closes"),
        ("a.csv", '1.jpg,0\n"' + "x.jpg,1\n" * 50000, "line 2 has a quote that nothing closes"),
        ("a.csv", "1.jpg,0\n2\0.jpg,1\n", "NUL"),
        ("a.csv", "1.jpg,0\r2.jpg,1\r", "line 1 is no CSV"),
        ("a.lst", "0\t0\t1\0.jpg\n", "NUL"),
        ("a.lst", "0\t1_0\t1.jpg\n", "line 1 has a label that is no number"),
        ("a.lst", "0\t١\t1.jpg\n", "line 1 has a label that is no number"),
        ("a.lst", "0\tnan\t1.jpg\n", "finite"),
    ],
)
def test_a_bad_list_names_its_line(tmp_path, name, text, words):
    with pytest.raises(DataError, match=words):
        open_source(write(tmp_path / name, text))


@pytest.mark.parametrize(
    ("header", "words"),
    [("path,cat,cat", "'cat' names two classes"), ('path,"a\tb",c', "a tab"), ("path,a,", "an empty name")],
)
def test_names_of_outputs_that_no_class_list_can_hold_are_refused(tmp_path, header, words):
    with pytest.raises(DataError, match=words):
        open_source(
            write(tmp_path / "a.csv", f"{header}\n1.jpg,0,1\n"), options=SourceOptions(multi_label=True)
        )


@pytest.mark.parametrize("words", [("1_2", "12"), ("1_2", "3_4"), ("١", "1"), ("0x1", "1"), ("nan", "cat")])
def test_what_only_python_takes_for_a_number_is_a_name(tmp_path, words):
    found = open_source(write(tmp_path / "a.csv", "".join(f"{word}.jpg,{word}\n" for word in words)))
    assert found.class_names == sorted(words)
    assert named(found) == [(f"{word}.jpg", sorted(words).index(word)) for word in words]


def test_several_labels_are_finite_too(tmp_path):
    with pytest.raises(DataError, match="finite"):
        resolve_labels([(0.0, "nan")], tmp_path, True)
    with pytest.raises(DataError, match="finite"):
        resolve_labels([(10**400,)], tmp_path, False)


def test_labels_that_are_no_classes_get_no_class_list(tmp_path):
    assert resolve_labels([(0.5,), (1,)], tmp_path, False) == ([0.5, 1.0], None)
    assert resolve_labels([(-1,), (1,)], tmp_path, False) == ([-1.0, 1.0], None)
    assert resolve_labels([(70000,)], tmp_path, False) == ([70000], None)
    with pytest.raises(DataError, match="with 1 and with 2"):
        resolve_labels([(1,), (1, 2)], tmp_path, True)


# Text


def test_text_documents(tmp_path):
    lines = [json.dumps({"text": "eins\nzwei"}), "", json.dumps({"text": "Ω"}), '{"title": 1}', "nonsense"]
    path = write(tmp_path / "a.jsonl", "\n".join(lines))
    found = open_source(path)
    assert found.holds_text
    assert [item.name for item in found.items] == ["a.jsonl:1", "a.jsonl:3", "a.jsonl:4", "a.jsonl:5"]
    assert [found.read(item) for item in found.items[:2]] == [b"eins\nzwei", "Ω".encode()]
    for item, words in zip(found.items[2:], ["no `text`", "no JSON"]):
        with pytest.raises(BadItem, match=words):
            found.read(item)
    path = write(tmp_path / "a.txt", "\n\na\nb\n \n\r\nc\n\n\n")
    found = open_source(path)
    assert [(item.name, found.read(item)) for item in found.items] == [
        ("a.txt:3", b"a\nb"),
        ("a.txt:7", b"c"),
    ]
    for name in ("one.txt", "deep/two.txt"):
        touch(tmp_path / "folder" / name)
    found = open_source(tmp_path / "folder")
    assert [(item.name, found.read(item)) for item in found.items] == [
        ("deep/two.txt", b"two.txt"),
        ("one.txt", b"one.txt"),
    ]


# Which kind it is


def test_what_a_folder_holds_tells_its_kind(tmp_path):
    touch(tmp_path / "tars" / "a.tar")
    touch(tmp_path / "classes" / "deep" / "er" / "1.png")
    touch(tmp_path / "classes" / "notes.txt")
    touch(tmp_path / "both" / "a.tar")
    touch(tmp_path / "both" / "cats" / "1.png")
    (tmp_path / "empty").mkdir()
    assert recognise(tmp_path / "tars") == "webdataset"
    assert recognise(tmp_path / "classes") == "folder"
    assert recognise(tmp_path / "empty") == "folder"
    with pytest.raises(UsageError, match=r"folder \(it has cats\) or webdataset \(it has a.tar\): move"):
        recognise(tmp_path / "both")


def test_what_is_unknown_is_described(tmp_path):
    path = write(tmp_path / "a.tar.gz", b"\x1f\x8b" + bytes(20))
    with pytest.raises(
        UsageError, match=r"gzip archive.*known are folders.* \.rec .*; --from says which it is"
    ):
        open_source(path)
    with pytest.raises(UsageError, match=r"gzip archive.*known are folder") as refused:
        open_samples(str(path))  # as the commands do that have no --from
    assert "--from" not in str(refused.value) and len(str(refused.value)) < 300 + len(str(path))
    with pytest.raises(UsageError, match="an empty file"):
        recognise(write(tmp_path / "empty", b""))
    with pytest.raises(DataError, match="does not exist"):
        open_source(tmp_path / "nowhere")
