"""Training on a folder as it is: the bits of its pack, on devices, in processes, and over a resume."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mxtrain.core.errors import DATA
from mxtrain.core.opencv import cv2
from tests.support.commands import Command
from tests.support.data.pictures import picture
from tests.support.runs import assert_same_end, curve

NET = "--model small_cnn --image-size 24 --batch-size 16 --micro-batch 8 --threads 1 --log none --schedule constant"


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    for number in range(48):
        path = folder / "abc"[number % 3] / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        cv2.imwrite(str(path), picture(number, 40, 30))
    return folder


def test_a_folder_trains_to_the_bits_of_its_pack(pictures: Path, tmp_path: Path, command: Command) -> None:
    done = command("tools.im2rec_wrapper", "pack", pictures, tmp_path / "a.rec", "--quiet")
    assert done.returncode == 0, done.stderr
    runs = {
        "pack": ("--train", tmp_path / "a.rec"),
        "folder": ("--train", pictures),
        "processes": ("--train", pictures, "--loader", "processes", "--loader-workers", "2"),
        "devices": ("--train", pictures, "--devices", "cpu:0,1"),
    }
    for name, flags in runs.items():
        done = command("mxtrain.fit", *NET.split(), "--epochs", "2", *flags, "--out", tmp_path / name)
        assert done.returncode == 0, done.stderr
        if name != "pack":
            assert f"{pictures}: read as it is; " in done.stderr + done.stdout
            assert curve(tmp_path / name) == curve(tmp_path / "pack")
            assert_same_end(
                tmp_path / name, tmp_path / "folder"
            )  # which also compares the identity of the data


def test_a_run_goes_on_in_the_middle_of_an_epoch(pictures: Path, tmp_path: Path, command: Command) -> None:
    flags = [*NET.split(), "--epochs", "2", "--train", pictures, "--checkpoint-steps", "1"]
    for name, steps in (("whole", ()), ("parts", ("--max-steps", "2")), ("parts", ())):
        done = command("mxtrain.fit", *flags, *steps, "--out", tmp_path / name)
        assert done.returncode == 0, done.stderr
    assert_same_end(tmp_path / "parts", tmp_path / "whole")


def test_a_picture_that_cannot_be_read_is_named(pictures: Path, tmp_path: Path, command: Command) -> None:
    (tmp_path / "set").mkdir()
    for name in "abc":
        (tmp_path / "set" / name).symlink_to(pictures / name)
    (tmp_path / "set" / "d").mkdir()
    (tmp_path / "set" / "d" / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\n and no more")
    flags = [*NET.split(), "--train", tmp_path / "set", "--epochs", "1"]
    done = command("mxtrain.fit", *flags, "--out", tmp_path / "run")
    assert done.returncode == DATA and "d/bad.png" in done.stderr.splitlines()[-1]
    done = command("mxtrain.fit", *flags, "--skip-bad", "1", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    if os.geteuid():
        return
    done = command("mxtrain.fit", *NET.split(), "--train", tmp_path / "none", "--out", tmp_path / "other")
    assert done.returncode == DATA and str(tmp_path / "none") in done.stderr


def test_a_dataset_of_ones_own_is_read_by_processes_to_the_same_bits(
    tmp_path: Path, command: Command
) -> None:
    own = ("--train", "tests.support.user_code.user_data:dataset", "--augment", "flip")
    for name, flags in (("threads", ()), ("processes", ("--loader", "processes", "--loader-workers", "2"))):
        done = command("mxtrain.fit", *NET.split(), *own, *flags, "--epochs", "2", "--out", tmp_path / name)
        assert done.returncode == 0, done.stderr
    assert_same_end(tmp_path / "processes", tmp_path / "threads")
