"""The packing command as its users run it."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import shutil
import signal
import socket
import struct
import subprocess
import sys
import termios
import time

import cv2
import numpy as np
import pytest

from examples.digits import write_digits
from mxtrain.data.records.record_file import open_records
from tests.support.breadth import slow_cases
from tests.support.data.pack_command import (
    ENVIRONMENT,
    ROOT,
    TIMEOUT_SECONDS,
    assert_one_line,
    im2rec_wrapper,
    run,
)


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits") / "images"
    write_digits(folder)
    return folder


@pytest.fixture
def some_digits(digits, tmp_path):
    """A few images of three classes, to damage at will."""
    for name in ["one", "three", "two"]:
        (tmp_path / "images" / name).mkdir(parents=True)
        for path in sorted((digits / name).iterdir())[:10]:
            shutil.copy(path, tmp_path / "images" / name)
    return tmp_path / "images"


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_quiet_packer_has_one_line(some_digits, tmp_path):
    done = im2rec_wrapper("pack", some_digits, tmp_path / "out.rec", "--quiet")
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.count("\n") == 1
    assert done.stdout.startswith("packed 30 images of 3 classes in ")


@pytest.mark.slow  # test_a_killed_pack_resumes_to_the_same_bytes packs twice
def test_the_digits_are_the_same_each_time(digits, tmp_path):
    assert run(ROOT / "examples" / "digits.py", tmp_path / "again").returncode == 0
    for name in os.listdir(digits):
        assert contents(digits / name) == contents(tmp_path / "again" / name)


def test_a_split_pack_holds_every_image_once(digits, tmp_path):
    done = im2rec_wrapper("pack", digits, tmp_path / "out", "--split", "0.9")
    assert (done.returncode, done.stderr) == (0, "")
    assert "packed 1797 images of 10 classes" in done.stdout
    names = [
        f"{part}{suffix}"
        for part in ("train", "val")
        for suffix in (".classes.tsv", ".idx", ".rec", ".sources.tsv")
    ]
    assert sorted(os.listdir(tmp_path / "out")) == names
    packed = []
    for part in ("train", "val"):
        records = open_records(tmp_path / "out" / f"{part}.rec")
        assert records.class_names == sorted(os.listdir(digits))
        found = [records.read(position) for position in range(len(records))]
        assert [record.key for record in found] == list(range(len(records)))
        packed += [(records.class_names[int(record.label)], bytes(record.payload)) for record in found]
        lines = (tmp_path / "out" / f"{part}.classes.tsv").read_text().splitlines()
        counts = [sum(record.label == label for record in found) for label in range(10)]
        assert [int(line.split("\t")[1]) for line in lines] == counts
    assert 0.89 < len(open_records(tmp_path / "out" / "train.rec")) / 1797 < 0.91
    assert sorted(packed) == sorted((p.parent.name, p.read_bytes()) for p in digits.glob("*/*.png"))


def test_the_bytes_depend_on_the_seed_and_not_on_the_workers(some_digits, tmp_path):
    for name, *options in [
        ("one",),
        ("many", "--workers", 40),
        ("few", "--workers", 1),
        ("other", "--seed", 1),
    ]:
        command = ("pack", some_digits, tmp_path / name, "--split", "0.8", "--resize", 16, *options)
        assert im2rec_wrapper(*command).returncode == 0
    assert contents(tmp_path / "one") == contents(tmp_path / "many") == contents(tmp_path / "few")
    assert contents(tmp_path / "one")["train.rec"] != contents(tmp_path / "other")["train.rec"]


@pytest.mark.parametrize(("out", "rec"), [("folder", "folder/data.rec"), ("pets.rec", "pets.rec")])
def test_a_pack_without_split(some_digits, tmp_path, out, rec):
    assert im2rec_wrapper("pack", some_digits, tmp_path / out).returncode == 0
    assert len(open_records(tmp_path / rec)) == 30


def test_bad_images_end_the_command_or_are_skipped(some_digits, tmp_path):
    image = sorted((some_digits / "two").iterdir())[0]
    image.write_bytes(image.read_bytes()[:100])
    (some_digits / "one" / "empty.jpg").touch()
    (some_digits / "one" / "nowhere.png").symlink_to("missing")
    bad = sorted([f"two/{image.name}", "one/empty.jpg", "one/nowhere.png"])
    bad_list = tmp_path / "out.bad.tsv"

    done = im2rec_wrapper("pack", some_digits, tmp_path / "out", "--split", "0.8")
    assert_one_line(done, 3, "3 bad images", bad_list, "--skip-bad")
    assert sorted(line.split("\t")[0] for line in bad_list.read_text().splitlines()) == bad
    assert sorted(os.listdir(tmp_path)) == ["images", "out.bad.tsv"]

    done = im2rec_wrapper("pack", some_digits, tmp_path / "out", "--split", "0.8", "--skip-bad")
    assert done.returncode == 0
    assert "packed 29 images of 3 classes" in done.stdout
    assert "3 bad ones skipped" in done.stdout
    sizes = [len(open_records(tmp_path / "out" / f"{part}.rec")) for part in ("train", "val")]
    assert sum(sizes) == 29

    for name in bad:
        (some_digits / name).unlink()
    assert im2rec_wrapper("pack", some_digits, tmp_path / "out").returncode == 0
    assert not bad_list.exists()


def test_a_failed_pack_leaves_the_earlier_one_alone(some_digits, tmp_path):
    assert im2rec_wrapper("pack", some_digits, tmp_path / "out").returncode == 0
    before = contents(tmp_path / "out")
    (some_digits / "one" / "empty.jpg").touch()
    assert im2rec_wrapper("pack", some_digits, tmp_path / "out").returncode == 3
    assert contents(tmp_path / "out") == before


def test_what_is_no_file_is_a_bad_image(some_digits, tmp_path):
    os.mkfifo(some_digits / "two" / "pipe.png")
    (some_digits / "two" / "random.png").symlink_to("/dev/zero")
    (some_digits / "two" / "listens.png").symlink_to(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        done = im2rec_wrapper("pack", some_digits, tmp_path / "out", "--skip-bad")
    assert done.returncode == 0, done.stderr
    assert sorted((tmp_path / "out.bad.tsv").read_text().splitlines()) == [
        "two/listens.png\tit cannot be read (a socket, not a file)",
        "two/pipe.png\tit cannot be read (a named pipe, not a file)",
        "two/random.png\tit cannot be read (a device, not a file)",
    ]
    assert len(open_records(tmp_path / "out" / "data.rec")) == 30


@pytest.fixture(scope="module")
def many_images(tmp_path_factory):
    """600 images, of which 5 are bad."""
    folder = tmp_path_factory.mktemp("many")
    rng = np.random.default_rng(0)
    variants = [
        cv2.imencode(".jpg", cv2.resize(rng.integers(0, 256, (8, 8, 3), np.uint8), (512, 384)))[1].tobytes()
        for _ in range(20)
    ]
    for number in range(600):
        path = folder / f"class{number % 3}" / f"{number}.jpg"
        path.parent.mkdir(exist_ok=True)
        data = variants[number % 20] + b"%d" % number  # bytes behind the end of a JPEG are ignored
        path.write_bytes(data if number % 120 != 7 else data[: 500 + number % 50])
    return folder


def start_and_kill(command, journal):
    """Run a pack, slowly, until it has written a checkpoint, which it does once a second, and kill it."""
    process = subprocess.Popen([*command, "--workers", "1"], env=ENVIRONMENT, stderr=subprocess.DEVNULL)

    def wait_for(happened):
        give_up = time.monotonic() + TIMEOUT_SECONDS
        while not happened():
            assert process.poll() is None, "it was done before it could be killed"
            assert time.monotonic() < give_up
            time.sleep(0.001)

    try:
        wait_for(lambda: any(path.stat().st_size for path in journal.parent.rglob("*.rec.partial")))
        process.send_signal(signal.SIGSTOP)
        time.sleep(1.1)
        process.send_signal(signal.SIGCONT)
        wait_for(lambda: journal.read_bytes().count(b"\n") > 1)
    finally:
        process.kill()
        process.wait()


def test_a_killed_pack_resumes_to_the_same_bytes(many_images, tmp_path):
    options = ["--resize", "100", "--quality", "90", "--split", "0.9", "--shards", "2", "--skip-bad"]
    done = im2rec_wrapper("pack", many_images, tmp_path / "whole", *options)
    assert done.returncode == 0, done.stderr
    assert "5 bad ones skipped" in done.stdout

    command = [sys.executable, "-m", "tools.im2rec_wrapper", "pack", str(many_images), str(tmp_path / "out")]
    start_and_kill([*command, *options], tmp_path / "out.journal")
    assert not list(tmp_path.glob("out/*.rec"))
    mistaken = im2rec_wrapper("pack", many_images, tmp_path / "out", *options, "--tokenizer", "bytez")
    assert mistaken.returncode == 2  # and what was done is not lost by it
    done = im2rec_wrapper("pack", many_images, tmp_path / "out", *options, "--workers", 3)
    assert done.returncode == 0, done.stderr
    assert "resuming after" in done.stderr, done.stderr
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    bad_lists = [(tmp_path / f"{name}.bad.tsv").read_text() for name in ("out", "whole")]
    assert bad_lists[0] == bad_lists[1]
    assert bad_lists[0].count("\n") == 5
    assert sorted(os.listdir(tmp_path)) == ["out", "out.bad.tsv", "whole", "whole.bad.tsv"]


@pytest.mark.parametrize("change", ["options", pytest.param("source", marks=pytest.mark.slow)])
def test_a_killed_pack_starts_again_when_something_changed(many_images, tmp_path, change):
    source, out = tmp_path / "images", tmp_path / "out.rec"
    shutil.copytree(many_images, source)
    command = ["pack", source, out, "--resize", "100", "--quality", "90", "--skip-bad"]
    start_and_kill(
        [sys.executable, "-m", "tools.im2rec_wrapper", *map(str, command)], tmp_path / "out.rec.journal"
    )
    images = sorted(source.glob("*/*.jpg"))
    if change == "options":
        command[command.index("90")] = "80"
    else:
        for image in images:
            os.utime(image)
    done = im2rec_wrapper(*command)
    assert done.returncode == 0, done.stderr
    assert "starting from the beginning" in done.stderr
    assert ("--quality" if change == "options" else "the source") in done.stderr
    assert len(open_records(out)) == len(list(source.glob("*/*.jpg"))) - 5


def test_shards_are_balanced_and_hold_everything_once(digits, tmp_path):
    done = im2rec_wrapper("pack", digits, tmp_path / "out", "--shards", "4")
    assert done.returncode == 0, done.stderr
    shards = [open_records(tmp_path / "out" / f"data-{n:05}-of-00004.rec") for n in range(4)]
    assert sorted(map(len, shards)) == [449, 449, 449, 450]
    assert {tuple(shard.class_names) for shard in shards} == {tuple(sorted(os.listdir(digits)))}
    found = sorted(bytes(shard.read(n).payload) for shard in shards for n in range(len(shard)))
    assert found == sorted(path.read_bytes() for path in digits.glob("*/*.png"))


def test_shards_are_packed_into_one_file_again(some_digits, tmp_path):
    assert im2rec_wrapper("pack", some_digits, tmp_path / "shards", "--shards", "3").returncode == 0
    (tmp_path / "shards" / "data-00001-of-00003.idx").unlink()
    done = im2rec_wrapper("pack", tmp_path / "shards", tmp_path / "one.rec", "--no-shuffle")
    assert done.returncode == 0, done.stderr
    one = open_records(tmp_path / "one.rec")
    assert one.class_names == ["one", "three", "two"]
    expected = sorted(path.read_bytes() for path in some_digits.glob("*/*"))
    assert sorted(bytes(one.read(n).payload) for n in range(len(one))) == expected


def test_text_becomes_token_records(tmp_path):
    (tmp_path / "words.txt").write_text("To be,\nor not\n\n\nthat is\n")
    done = im2rec_wrapper("pack", tmp_path / "words.txt", tmp_path / "words.rec", "--no-shuffle")
    assert done.returncode == 0, done.stderr
    assert "packed 2 documents" in done.stdout
    records = open_records(tmp_path / "words.rec")
    texts = [np.frombuffer(records.read(n).payload, "<u2").tolist() for n in range(2)]
    assert texts == [[*b"To be,\nor not", 256], [*b"that is", 256]]
    beside = json.loads((tmp_path / "words.tokens.json").read_text())
    assert (beside["tokenizer"], beside["dtype"], beside["num_tokens"]) == ("bytes", "uint16", 22)


def test_a_terminal_gets_a_bar(some_digits, tmp_path):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    command = [sys.executable, "-m", "tools.im2rec_wrapper", "pack", str(some_digits), str(tmp_path / "out")]
    done = subprocess.run(
        command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=theirs, timeout=TIMEOUT_SECONDS
    )
    shown = os.read(ours, 1 << 16)
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 0
    assert b"30/30" in shown


def test_a_lost_index_is_rebuilt(some_digits, tmp_path):
    im2rec_wrapper("pack", some_digits, tmp_path / "pets.rec")
    index = (tmp_path / "pets.idx").read_bytes()
    (tmp_path / "pets.idx").write_text("0\t4\n")
    done = im2rec_wrapper("index", tmp_path / "pets.rec")
    assert (done.returncode, done.stderr) == (0, "")
    assert "30 records" in done.stdout
    assert (tmp_path / "pets.idx").read_bytes() == index


@pytest.mark.parametrize(
    ("arguments", "exit_code", "words"),
    [
        (["pack", "missing", "out"], 3, ["missing does not exist"]),
        (["pack", "file", "out"], 2, ["file looks like a text file", ".tar ", "--from"]),
        (["pack", "file", "out", "--from", "folder"], 3, ["cannot read folder file"]),
        (["pack", "images", "out", "--from", "zip"], 2, ["--from", "zip", "tfrecord"]),
        (["pack", "images", "out", "--root", "."], 2, ["--root", "a folder per class"]),
        (["pack", "words.txt", "out", "--quality", "9"], 2, ["--quality", "text"]),
        (["pack", "images", "out", "--shards", "40"], 3, ["no good item", "data-00030-of-00040.rec"]),
        (["pack", "images/one", "out"], 3, ["no images", "put each class in a folder"]),
        (["pack", "images", "file/out"], 2, ["file/out"]),
        (["pack", "images", "taken.rec"], 2, ["taken.rec", "Is a directory"]),
        (["pack", "images", "out.rec", "--split", "0.9"], 2, ["out.rec", "--split"]),
        (["pack", "images", "out", "--seed", "2147483648"], 2, ["--seed", "from 0 to 2147483647"]),
        (["show", "file", "--seed", "2147483648"], 2, ["--seed", "from 0 to 2147483647"]),
        (["pack", "images", "images"], 2, ["images/data.rec", "which is the source"]),
        (["pack", "images"], 2, ["OUT"]),
        (["unpack", "images"], 2, ["unpack", "pack"]),
        (["index", "file"], 3, ["file", "a text file"]),
        *slow_cases(  # one of each kind is above
            (["pack", "images", "out", "--multi-label"], 2, ["--multi-label", "a folder per class"]),
            (["pack", "images", "out", "--tokenizer", "a:b"], 2, ["--tokenizer", "images"]),
            (["pack", "images", "out", "--shards", "0"], 2, ["--shards", "from 1 to"]),
            (["pack", "images", "file"], 2, ["file"]),
            (["pack", "images", "out", "--split", "1.5"], 2, ["--split", "1.5", "0.9"]),
            (["pack", "images", "out", "--split", "most"], 2, ["--split", "most"]),
            (["pack", "images", "out", "--quality", "101"], 2, ["--quality", "100"]),
            (["pack", "images", "out", "--workers", "0"], 2, ["--workers", "at least 1"]),
            (["pack", "images", "out", "--seed", "-1"], 2, ["--seed", "-1", "from 0 to 2147483647"]),
        ),
    ],
)
def test_a_mistake_is_one_line(some_digits, tmp_path, arguments, exit_code, words):
    (tmp_path / "file").write_text("hello")
    (tmp_path / "words.txt").write_text("hello")
    (tmp_path / "taken.rec").mkdir()
    before = sorted(os.listdir(tmp_path))
    assert_one_line(im2rec_wrapper(*arguments, cwd=tmp_path), exit_code, *words)
    assert sorted(os.listdir(tmp_path)) == before


def test_without_scikit_learn_the_digits_say_what_to_install(tmp_path):
    (tmp_path / "sklearn").mkdir()
    (tmp_path / "sklearn" / "__init__.py").write_text("raise ImportError('not here')\n")
    environment = {**ENVIRONMENT, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    command = [sys.executable, str(ROOT / "examples" / "digits.py"), str(tmp_path / "out")]
    done = subprocess.run(
        command, env=environment, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT_SECONDS
    )
    assert_one_line(done, 2, "mxtrain[dev]")
