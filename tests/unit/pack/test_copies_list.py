"""Lists of copies: written by `check`, drawn by `show`, accepted by `check`."""

from __future__ import annotations

import json
import shutil

import cv2
import pytest

from mxtrain.data.packing.options import Options
from mxtrain.data.packing.pack import pack
from mxtrain.data.records.record_file import index_path
from tests.support.data.pack_command import assert_one_line
from tests.support.data.pack_command import in_this_process as im2rec_wrapper
from tests.support.data.pictures import jpeg, picture


@pytest.fixture
def images(tmp_path):
    """Ten pictures of two classes; three saved again at half their size, and one once more as it is."""
    for number in range(10):
        folder = tmp_path / "images" / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.jpg").write_bytes(jpeg(picture(number)))
        if number < 3:
            half = cv2.resize(picture(number), (40, 30), interpolation=cv2.INTER_AREA)
            (folder / f"{number} again.jpg").write_bytes(jpeg(half))
    shutil.copy(tmp_path / "images" / "b" / "9.jpg", tmp_path / "images" / "b" / "copy of 9.jpg")
    return tmp_path / "images"


@pytest.fixture
def rec(images, tmp_path):
    pack(images, tmp_path / "all.rec", Options())
    return tmp_path / "all.rec"


def listed(path):
    return [line.split("\t") for line in path.read_text().splitlines()[1:]]


def test_copies_are_listed_looked_at_and_accepted(rec, images, tmp_path):
    copies = tmp_path / "copies.tsv"
    done = im2rec_wrapper("check", rec, "--strict", "--copies", copies)
    assert done.returncode == 3 and f"wrote {copies}: 4 pairs" in done.stdout
    columns = listed(copies)
    assert [line[0] for line in columns] == ["duplicate", *["near-duplicate"] * 3]
    pairs = {frozenset((line[5], line[8])) for line in columns}
    assert pairs == {
        frozenset(("b/9.jpg", "b/copy of 9.jpg")),
        *(frozenset((f"{c}/{n}.jpg", f"{c}/{n} again.jpg")) for n, c in enumerate("aba")),
    }

    done = im2rec_wrapper("show", "--copies", copies, "--num", 3)
    assert done.stdout == f"wrote {tmp_path / 'copies.png'}: 3 of 4 pairs\n", done.stderr
    sheet = cv2.imread(str(tmp_path / "copies.png"))
    assert sheet.shape == (192 + 10, 3 * 308 + 10, 3)
    left, right = sheet[10 + 18 : 10 + 126, 10:154], sheet[10 + 18 : 10 + 126, 164:308]
    assert (left == right).all() and left.std() > 10, "the first pair are the same picture"

    done = im2rec_wrapper("check", rec, "--strict", "--accept", copies)
    assert (done.returncode, done.stderr) == (0, "")
    assert "accepted: 4 x copies" in done.stdout and "nothing wrong was found" in done.stdout

    # Packed again in another order it is the same pairs; a new copy is none of them.
    (images / "a" / "copy of 4.jpg").write_bytes((images / "a" / "4.jpg").read_bytes())
    pack(images, rec, Options(seed=5))
    done = im2rec_wrapper(
        "check", rec, "--strict", "--json", "--accept", copies, "--copies", tmp_path / "new.tsv"
    )
    report = json.loads(done.stdout)
    assert (done.returncode, report["num_accepted"], len(report["findings"])) == (3, 4, 1)
    assert {record["source"] for record in report["findings"][0]["records"]} == {"a/4.jpg", "a/copy of 4.jpg"}
    assert report["findings"][0]["digests"] == listed(tmp_path / "new.tsv")[0][1:3]
    both = im2rec_wrapper("check", rec, "--strict", "--accept", copies, "--accept", tmp_path / "new.tsv")
    assert both.returncode == 0, both.stdout

    done = im2rec_wrapper("show", "--copies", copies)
    assert_one_line(done, 3, "copies.tsv: line 2: ")
    assert "was packed again" in done.stderr


def test_pictures_are_found_again_where_folders_have_wide_spaces_in_their_names(images, tmp_path):
    """Spaces as input methods for Chinese and Japanese write them, and macOS with the option key."""
    folder = tmp_path / "データ\u3000セット\xa02"
    folder.mkdir()
    pack(images, folder / "all.rec", Options())
    im2rec_wrapper("check", folder / "all.rec", "--copies", tmp_path / "copies.tsv")
    done = im2rec_wrapper("show", "--copies", tmp_path / "copies.tsv")
    assert done.returncode == 0 and "4 of 4 pairs" in done.stdout, done.stderr


def test_a_line_of_three_columns_is_enough_and_comments_are_skipped(rec, tmp_path):
    copies = tmp_path / "copies.tsv"
    im2rec_wrapper("check", rec, "--copies", copies)
    kind, one, other, *_ = listed(copies)[1]
    mine = tmp_path / "mine.tsv"
    mine.write_text(f"# looked at by me\n\n{kind}\t{other}\t{one}\r\n")
    done = im2rec_wrapper("check", rec, "--accept", mine)
    assert "accepted: 1 x copies" in done.stdout and "note: 2 x near-duplicate" in done.stdout
    assert_one_line(im2rec_wrapper("show", "--copies", mine), 3, "lists no pairs with their .rec and key")


def test_what_is_accepted_within_a_set_is_still_a_leak(rec, images, tmp_path):
    copies = tmp_path / "copies.tsv"
    im2rec_wrapper("check", rec, "--copies", copies)
    shutil.copy(rec, tmp_path / "val.rec")
    done = im2rec_wrapper("check", rec, tmp_path / "val.rec", "--accept", copies)
    assert done.returncode == 3
    assert "WRONG: 14 x leak" in done.stdout


def test_no_other_file_is_written_over(rec, tmp_path):
    before = index_path(rec).read_bytes()
    done = im2rec_wrapper("check", rec, "--copies", index_path(rec))
    assert_one_line(done, 2, f"--copies {index_path(rec)}: is there, and no list of copies")
    assert (done.stdout, index_path(rec).read_bytes()) == ("", before)
    copies = tmp_path / "copies.tsv"
    assert im2rec_wrapper("check", rec, "--copies", copies).returncode == 0
    assert im2rec_wrapper("check", rec, "--copies", copies).returncode == 0
    assert_one_line(
        im2rec_wrapper("check", rec, "--copies", copies, "--accept", copies), 2, "is --accept's list"
    )
    assert_one_line(im2rec_wrapper("check", rec, "--copies", tmp_path), 2, "Is a directory")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("near-leak\t1\n", "line 1 is no pair of copies"),
        ("# x\nnear-leak\t1\t2\ta.rec\tx\t\ta.rec\t2\t\n", "line 2 has the key 'x'"),
        (b"\xff", "is no list of copies"),
        (None, "No such file"),
    ],
)
def test_a_list_that_makes_no_sense_is_refused_first(tmp_path, text, words):
    if text is not None:
        (tmp_path / "list.tsv").write_bytes(text.encode() if isinstance(text, str) else text)
    for arguments in (["check", "missing.rec", "--accept"], ["show", "--copies"]):
        done = im2rec_wrapper(*arguments, tmp_path / "list.tsv")
        assert_one_line(done, 3, words)
        assert done.stdout == ""


def test_show_takes_a_rec_or_a_list(rec, tmp_path):
    assert_one_line(im2rec_wrapper("show"), 2, "give either a FILE.rec, or --copies")
    assert_one_line(im2rec_wrapper("show", rec, "--copies", tmp_path / "a.tsv"), 2, "give either a FILE.rec")
