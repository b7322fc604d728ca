"""Training on a folder as it is: the bits of its pack, on devices, in processes, and over a resume."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mxtrain.core.errors import DATA
from mxtrain.core.opencv import cv2
from tests.support.breadth import slow_cases
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


TEXT_NETS = {
    "lm": ("text", "gpt:layers=1,width=16,heads=2"),
    "sequence_classification": ("labelled_text", "bilstm:width=8"),
    "token_classification": ("tagged_text", "bilstm:width=8"),
}


@pytest.mark.parametrize("task", ["sequence_classification", *slow_cases("lm", "token_classification")])
def test_texts_train_to_the_bits_of_their_pack(task: str, tmp_path: Path, command: Command) -> None:
    source_type, net = TEXT_NETS[task]
    lines = [{"text": "ab " * (number % 5 + 1), "label": "yn"[number % 2]} for number in range(24)]
    if source_type == "tagged_text":
        lines = [{"tokens": ["a", "b"] * (n % 4 + 1), "labels": ["O", "X"] * (n % 4 + 1)} for n in range(24)]  # type: ignore[misc]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    line = ("pack", tmp_path / "a.jsonl", tmp_path / "a.rec", "--from", source_type, "--quiet")
    done = command("tools.im2rec_wrapper", *line)
    assert done.returncode == 0, done.stderr
    flags = ("--task", task, "--model", net, "--window", "16", "--batch-size", "8", "--micro-batch", "4")
    for name, train in (("pack", "a.rec"), ("lines", "a.jsonl")):
        own = (
            "--train",
            tmp_path / train,
            "--val",
            tmp_path / train,
            "--out",
            tmp_path / name,
            "--epochs",
            "2",
        )
        done = command("mxtrain.fit", *flags, *own, "--threads", "1", "--log", "none")
        assert done.returncode == 0, done.stderr
    assert curve(tmp_path / "lines") == curve(tmp_path / "pack")


def test_a_table_trains_to_the_bits_of_its_pack_in_its_order(tmp_path: Path, command: Command) -> None:
    rows = [f"{number % 7 / 8},{number % 5 / 4},{'xy'[number % 2]}\n" for number in range(24)]
    (tmp_path / "a.csv").write_text("a,b,label\n" + "".join(rows))
    line = ("pack", tmp_path / "a.csv", tmp_path / "a.rec", "--target", "label", "--no-shuffle", "--quiet")
    done = command("tools.im2rec_wrapper", *line)
    assert done.returncode == 0, done.stderr
    for name in ("a.csv", "a.rec"):
        flags = (
            "--task",
            "arrays",
            "--batch-size",
            "8",
            "--micro-batch",
            "4",
            "--epochs",
            "2",
            "--threads",
            "1",
        )
        done = command(
            "mxtrain.fit", *flags, "--train", tmp_path / name, "--log", "none", "--out", tmp_path / name[2:]
        )
        assert done.returncode == 0, done.stderr
    assert curve(tmp_path / "csv") == curve(tmp_path / "rec")


def test_packed_first_it_is_the_run_of_its_pack(pictures: Path, tmp_path: Path, command: Command) -> None:
    done = command("tools.im2rec_wrapper", "pack", pictures, tmp_path / "a.rec", "--quiet")
    assert done.returncode == 0, done.stderr
    runs = {
        "own": ("--train", tmp_path / "a.rec", "--val", tmp_path / "a.rec"),
        "first": ("--train", pictures, "--val", pictures, "--pack", tmp_path / "packs"),
        "second": ("--train", pictures, "--val", pictures, "--pack", tmp_path / "packs"),
    }
    for name, flags in runs.items():
        line = (*NET.split(), "--epochs", "1", "--log", "console", *flags, "--out", tmp_path / name)
        done = command("mxtrain.fit", *line)
        assert done.returncode == 0, done.stderr
        assert curve(tmp_path / name) == curve(tmp_path / "own")
        assert ("is packed into" in done.stderr) == (name == "first")
        assert (f"{tmp_path / 'packs' / 'val.rec'} is there" in done.stderr) == (name == "second")
    done = command("mxtrain.evaluate", "--run", tmp_path / "first")
    assert done.returncode == 0, done.stderr
    (pictures / "a" / "new.png").symlink_to("0.png")
    done = command("mxtrain.fit", *NET.split(), *runs["second"], "--out", tmp_path / "second")
    (pictures / "a" / "new.png").unlink()
    assert done.returncode == DATA and "1 new (as 'a/new.png')" in done.stderr.splitlines()[-1]
    done = command(
        "mxtrain.fit", *NET.split(), *runs["own"], "--pack", tmp_path / "packs", "--out", tmp_path / "x"
    )
    assert done.returncode == 2 and "leave --pack out" in done.stderr


@pytest.mark.slow  # tests/unit/pack/test_source_packs.py: of processes that begin at once one packs
def test_of_the_workers_of_a_host_one_packs(pictures: Path, tmp_path: Path, command: Command) -> None:
    flags = (
        "--train",
        pictures,
        "--pack",
        tmp_path / "packs",
        "--kvstore",
        "dist_sync",
        "--num-workers",
        "2",
    )
    line = (*NET.split(), "--epochs", "1", *flags, "--out", tmp_path / "job")
    done = command("mxtrain.fit", *line)
    assert done.returncode == 0, done.stderr
    done = command("mxtrain.fit", *NET.split(), "--epochs", "1", *flags[:4], "--out", tmp_path / "alone")
    assert done.returncode == 0 and curve(tmp_path / "job") == curve(tmp_path / "alone")


@pytest.mark.slow  # test_own_data.py goes on in the middle of one
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
