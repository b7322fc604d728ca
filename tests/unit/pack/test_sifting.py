"""`pack --drop`: copies and damaged pictures are left out before the split, told, and the pack resumes to its bytes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from mxtrain.data.masks import mask_format
from mxtrain.data.packing.options import Options
from mxtrain.data.packing.pack import pack
from mxtrain.data.records.record_file import open_records
from tests.support.breadth import slow_cases
from tests.support.checkout import ROOT
from tests.support.data.pack_command import assert_one_line
from tests.support.data.pack_command import in_this_process as im2rec_wrapper
from tests.support.data.pictures import jpeg, picture
from tools.im2rec_wrapper.checking.check import check

BOTH = ("copies", "damaged")
SPLIT = Options(train_share=0.8, drop=BOTH, num_shards=2)
# Packs with a checkpoint after each picture, and dies like by `kill -9` at the one with this number.
KILLED = """
import itertools, os, signal, sys
from pathlib import Path
from mxtrain.data.packing import pack, pack_run
from mxtrain.data.packing.options import Options
pack_run.CHECKPOINT_EVERY_SECONDS = -1
left = int(sys.argv[3])

def progress(items, num_expected, num_before, noun):
    global left
    for item in items:
        yield item
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

options = Options(train_share=0.8, drop=("copies", "damaged"), num_shards=2)
pack.pack(Path(sys.argv[1]), Path(sys.argv[2]), options, progress)
"""


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Thirty pictures of three classes, copies of some as they are, saved again and of another class, and damage."""
    source = tmp_path / "images"
    for number in range(30):
        path = source / "abc"[number % 3] / f"{number:02}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(picture(number)))
    shutil.copy(source / "a" / "09.jpg", source / "a" / "same.jpg")
    shutil.copy(source / "a" / "03.jpg", source / "c" / "other.jpg")
    (source / "b" / "near.jpg").write_bytes(jpeg(picture(4), cv2.IMWRITE_JPEG_QUALITY, 60))
    (source / "b" / "png.png").write_bytes(cv2.imencode(".png", picture(7))[1].tobytes())
    (source / "b" / "cut.jpg").write_bytes(jpeg(picture(77))[:700])
    (source / "c" / "none.jpg").symlink_to("nowhere")
    return source


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def dropped(out: Path) -> list[list[str]]:
    return [line.split("\t") for line in (out.parent / f"{out.name}.dropped.tsv").read_text().splitlines()]


def test_what_check_reports_is_left_out_and_told(images: Path, tmp_path: Path) -> None:
    with_all = tmp_path / "all.rec"
    pack(images, with_all, Options(skip_bad=True))
    faults = [finding.fault for finding in check([with_all]).findings]
    assert faults.count("duplicate") == 2 and faults.count("near-duplicate") == 2
    out = tmp_path / "out"
    summary = pack(images, out, SPLIT)
    assert summary[0].startswith("packed 30 images of 3 classes in ")
    assert summary[1].startswith("  left out 6 (2 copy, 2 damaged, 2 near copy), all listed in ")
    table = dropped(out)
    assert [row[:2] for row in table[:2]] == [["b/cut.jpg", "damaged"], ["c/none.jpg", "damaged"]]
    assert "No such file" in table[1][2]
    assert table[2:] == [
        ["a/same.jpg", "copy", "a/09.jpg"],
        ["b/near.jpg", "near copy", "b/04.jpg"],
        ["b/png.png", "near copy", "b/07.jpg"],
        ["c/other.jpg", "copy", "a/03.jpg, of another label"],
    ]
    recs = sorted(out.glob("*.rec"))
    assert len(recs) == 4 and {finding.fault for finding in check(recs).findings} <= {"imbalance"}
    assert not list(tmp_path.glob("out.prepared*")) and not list(tmp_path.glob("*.journal"))
    names = {name for rec in recs for name in map(open_records(rec).source_names().of, range(6))}
    assert {"a/09.jpg", "b/04.jpg"} <= names and "a/same.jpg" not in names


def test_the_split_is_one_of_what_is_left(images: Path, tmp_path: Path) -> None:
    """Ten pictures of each class are left: the eight and two that a source without the others is divided into."""
    pack(images, tmp_path / "dropped", SPLIT)
    for row in dropped(tmp_path / "dropped"):
        (images / row[0]).unlink()
    pack(images, tmp_path / "clean", Options(train_share=0.8, num_shards=2))
    assert contents(tmp_path / "dropped") == contents(tmp_path / "clean")


@pytest.mark.parametrize("num_workers", [1, 7])
def test_any_number_of_workers_writes_the_same_bytes(images: Path, tmp_path: Path, num_workers: int) -> None:
    for name, workers in (("one", num_workers), ("other", None)):
        options = Options(train_share=0.8, drop=BOTH, num_workers=workers, short_side=40)
        pack(images, tmp_path / name, options)
    assert contents(tmp_path / "one") == contents(tmp_path / "other")
    assert dropped(tmp_path / "one") == dropped(tmp_path / "other")


@pytest.mark.parametrize("number", [36, *slow_cases(7, 45)])  # 36 are prepared before 30 are packed
def test_a_killed_pack_resumes_to_the_same_bytes(images: Path, tmp_path: Path, number: int) -> None:
    pack(images, tmp_path / "whole", SPLIT)
    line = [sys.executable, "-c", KILLED, str(images), str(tmp_path / "out"), str(number)]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == -9, done.stderr
    assert (tmp_path / "out.prepared.rec.partial").exists() and not list(tmp_path.glob("out/*.rec"))
    command = (
        "pack",
        images,
        tmp_path / "out",
        "--split",
        "0.8",
        "--shards",
        "2",
        "--drop",
        "damaged,copies",
    )
    again = im2rec_wrapper(*command)
    assert again.returncode == 0, again.stderr
    assert f"resuming after {min(number, 36)} of 36" in again.stderr
    assert ("resuming after 9 of 30" in again.stderr) == (number == 45)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert dropped(tmp_path / "out") == dropped(tmp_path / "whole")
    assert not list(tmp_path.glob("*.partial")) and not list(tmp_path.glob("*.journal"))


def test_a_picture_that_changed_meanwhile_is_packed_as_it_is_now(images: Path, tmp_path: Path) -> None:
    line = [sys.executable, "-c", KILLED, str(images), str(tmp_path / "out"), "45"]
    assert subprocess.run(line, cwd=ROOT, capture_output=True, timeout=60).returncode == -9
    (images / "a" / "03.jpg").write_bytes(jpeg(picture(500)))
    for name in ("out", "whole"):
        pack(images, tmp_path / name, SPLIT)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert ["c/other.jpg", "copy", "a/03.jpg, of another label"] not in dropped(tmp_path / "out")


def test_damage_ends_the_pack_where_only_copies_are_to_go(images: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert_one_line(im2rec_wrapper("pack", images, out, "--drop", "copies"), 3, "2 bad images", "--skip-bad")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["images", "out.bad.tsv"]
    done = im2rec_wrapper("pack", images, out, "--drop", "copies", "--skip-bad")
    assert done.returncode == 0 and "2 bad ones skipped" in done.stdout
    assert {row[1] for row in dropped(out)} == {"copy", "near copy"}
    assert (tmp_path / "out.bad.tsv").read_text().count("\n") == 2
    assert im2rec_wrapper("pack", images, out, "--drop", "damaged").returncode == 0
    assert [row[1] for row in dropped(out)] == ["damaged"] * 2 and not (tmp_path / "out.bad.tsv").exists()
    assert len(open_records(out / "data.rec")) == 34


def test_masks_go_with_their_pictures_and_make_none_another(tmp_path: Path) -> None:
    source = tmp_path / "set"
    for number in range(6):
        for folder, pixels in (("images", picture(number % 5)), ("masks", picture(number)[:, :, 0] % 3)):
            (source / folder).mkdir(parents=True, exist_ok=True)
            cv2.imwrite(str(source / folder / f"{number}.png"), pixels)
    (source / "classes.txt").write_text("a\nb\nc")
    pack(source, tmp_path / "out.rec", Options(drop=BOTH, source_type="masks", shuffle=False))
    assert dropped(tmp_path / "out.rec") == [["images/5.png", "copy", "images/0.png"]]
    records = open_records(tmp_path / "out.rec")
    assert len(records) == 5
    for number in range(5):
        _, mask = mask_format.split(records.read(number).payload)
        assert np.array_equal(mask, picture(number)[:, :, 0] % 3)


def test_what_it_does_not_apply_to_is_refused_by_name(images: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (tmp_path / "a.txt").write_text("words")
    np.savez(tmp_path / "a.npz", x=np.zeros((3, 2)), target=np.arange(3))
    for line, words in [
        ((tmp_path / "a.txt", out, "--drop", "copies"), "--drop is for images, and the source holds text"),
        ((tmp_path / "a.npz", out, "--drop", "damaged"), "--drop is for images, and the source holds arrays"),
        ((images, out, "--drop", "copies", "--verify", "structure"), "leave --verify structure out"),
        ((images, out, "--drop", "copies,broken"), "--drop: 'copies,broken' is not copies, damaged"),
    ]:
        assert_one_line(im2rec_wrapper("pack", *line), 2, words)
    for path in images.glob("*/*.jpg"):
        path.write_bytes(b"")
    (images / "b" / "png.png").write_bytes(b"")
    done = im2rec_wrapper("pack", images, out, "--drop", "damaged")
    assert done.returncode == 3 and "--drop leaves nothing to pack" in done.stderr
    assert not list(tmp_path.glob("out*"))
