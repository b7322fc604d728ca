"""The packs of `--pack`: made once, found again, resumed after a kill, and refused where their source has changed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import cv2
import pytest

from mxtrain.core.errors import DataError, Stopped, UsageError
from mxtrain.data.packing.options import Options
from mxtrain.data.packing.pack import pack
from mxtrain.data.packing.source_packs import WantedPack, packed
from mxtrain.data.records.record_file import open_records
from mxtrain.data.sources.samples import ONE_LABEL, Labels
from tests.support.checkout import ROOT
from tests.support.data.pictures import jpeg, picture

PROGRAM = """
import logging, os, signal, sys
from pathlib import Path
from mxtrain.data.packing import pack_run
from mxtrain.data.packing.source_packs import WantedPack, packed
from mxtrain.data.sources.samples import Labels
logging.basicConfig(level=logging.INFO, format="%(message)s")
pack_run.CHECKPOINT_EVERY_SECONDS = -1
die_at = int(sys.argv[3])

def progress(items, num_expected, num_before, noun):
    for number, item in enumerate(items, 1):
        yield item
        if number == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

packed(WantedPack("--train", Path(sys.argv[1]), Labels(), 0), Path(sys.argv[2]), progress)
"""


@pytest.fixture
def images(tmp_path: Path) -> Path:
    for number in range(24):
        path = tmp_path / "images" / "abc"[number % 3] / f"{number:02}\n\udcff.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(picture(number)))
    return tmp_path / "images"


def wanted(path: Path, labels: Labels = ONE_LABEL, skip_bad: int = 0) -> WantedPack:
    return WantedPack("--train", path, labels, skip_bad)


def started(images: Path, folder: Path, die_at: int = 0) -> subprocess.Popen[str]:
    line = [sys.executable, "-c", PROGRAM, str(images), str(folder), str(die_at)]
    return subprocess.Popen(line, cwd=ROOT, stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors


def test_it_is_what_the_packer_makes_and_is_found_again(images: Path, tmp_path: Path) -> None:
    rec = packed(wanted(images), tmp_path / "packs")
    pack(images, tmp_path / "own.rec", Options())
    for suffix in (".rec", ".idx", ".classes.tsv", ".sources.tsv"):
        assert rec.with_suffix(suffix).read_bytes() == (tmp_path / "own").with_suffix(suffix).read_bytes()
    state = rec.stat()
    assert packed(wanted(images), tmp_path / "packs") == rec
    assert (rec.stat().st_mtime_ns, rec.stat().st_ino) == (state.st_mtime_ns, state.st_ino)
    assert sorted(path.suffix for path in rec.parent.iterdir()) == [".idx", ".jsonl", ".rec", ".tsv", ".tsv"]


def test_a_killed_one_goes_on_to_the_same_bytes(images: Path, tmp_path: Path) -> None:
    code, errors = ended(started(images, tmp_path / "packs", die_at=9))
    assert code == -9, errors
    code, errors = ended(started(images, tmp_path / "packs"))
    assert code == 0 and "resuming after 9 of 24" in errors
    pack(images, tmp_path / "own.rec", Options())
    assert (tmp_path / "packs" / "train.rec").read_bytes() == (tmp_path / "own.rec").read_bytes()


def test_of_processes_that_begin_at_once_one_packs(images: Path, tmp_path: Path) -> None:
    processes = [started(images, tmp_path / "packs") for _ in range(3)]
    told = [ended(process) for process in processes]
    assert [code for code, _ in told] == [0, 0, 0], told
    assert sum("is packed into" in errors for _, errors in told) == 1
    assert sum("is there" in errors for _, errors in told) == 2


def test_a_stop_leaves_what_a_next_start_goes_on_from(images: Path, tmp_path: Path) -> None:
    def stops(items, *counts):  # type: ignore[no-untyped-def]
        yield next(items)
        raise Stopped("stopped by SIGTERM", 143)

    with pytest.raises(Stopped, match="stopped by SIGTERM; the same command resumes from here"):
        packed(wanted(images), tmp_path / "packs", stops)
    assert (tmp_path / "packs" / "train.rec.partial").exists()
    assert len(open_records(packed(wanted(images), tmp_path / "packs"))) == 24


def test_a_changed_source_is_named(images: Path, tmp_path: Path) -> None:
    rec = packed(wanted(images), tmp_path / "packs")
    first, second, *_ = sorted(images.glob("a/*"))
    first.write_bytes(jpeg(picture(100)))
    second.unlink()
    (images / "b" / "new.jpg").write_bytes(jpeg(picture(101)))
    with pytest.raises(DataError) as refused:
        packed(wanted(images), tmp_path / "packs")
    for words in (
        "1 new (as 'b/new.jpg')",
        "1 gone (as 'a/03",
        "1 changed (as 'a/00",
        f"what {rec} was packed of",
    ):
        assert words in str(refused.value)
    assert "\n" not in str(refused.value)
    rec.unlink()
    assert len(open_records(packed(wanted(images), tmp_path / "packs"))) == 24


def test_a_mask_that_changed_is_noticed(tmp_path: Path) -> None:
    for number in range(4):
        for where, pixels in (("images", picture(number)), ("masks", picture(number)[:, :, 0] % 3)):
            (tmp_path / "set" / where).mkdir(parents=True, exist_ok=True)
            cv2.imwrite(str(tmp_path / "set" / where / f"{number}.png"), pixels)
    (tmp_path / "set" / "classes.txt").write_text("a\nb\nc")
    masks = wanted(tmp_path / "set", Labels(are_masks=True))
    packed(masks, tmp_path / "packs")
    cv2.imwrite(str(tmp_path / "set" / "masks" / "2.png"), picture(9)[:, :, 0] % 3)
    with pytest.raises(DataError, match=r"1 changed \(as 'images/2.png'\)"):
        packed(masks, tmp_path / "packs")


def test_texts_are_packed_with_the_labels_of_the_task(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "yes", "label": "b"}\n{"text": "no", "label": "a"}\n')
    rec = packed(wanted(tmp_path / "a.jsonl", Labels(text_type="labelled_text")), tmp_path / "packs")
    assert open_records(rec).class_names == ["a", "b"]
    with pytest.raises(DataError, match="another type"):
        packed(wanted(tmp_path / "a.jsonl", Labels(text_type="text")), tmp_path / "packs")


def test_bad_items_are_left_out_up_to_a_number(images: Path, tmp_path: Path) -> None:
    for number in range(2):
        (images / "a" / f"bad{number}.jpg").write_bytes(b"")
    with pytest.raises(DataError, match="2 bad images, all listed in"):
        packed(wanted(images), tmp_path / "packs")
    with pytest.raises(DataError, match=r"2 bad items, all listed in .*, and --skip-bad is 1"):
        packed(wanted(images, skip_bad=1), tmp_path / "packs")
    assert len(open_records(packed(wanted(images, skip_bad=2), tmp_path / "packs"))) == 24


def test_what_is_no_place_for_packs_is_refused(images: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="lies in --train"):
        packed(wanted(images), images / "a" / "packs")
    assert not (images / "a" / "packs").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"--pack: .*file"):
        packed(wanted(images), tmp_path / "file")
    pack(images, tmp_path / "own" / "train.rec", Options())
    before = (tmp_path / "own" / "train.rec").read_bytes()
    with pytest.raises(UsageError, match="is there, and none that --pack has made"):
        packed(wanted(images), tmp_path / "own")
    assert (tmp_path / "own" / "train.rec").read_bytes() == before
    assert not os.path.exists(tmp_path / "own" / "train.packing")
