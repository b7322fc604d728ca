"""Predictions of many inputs, features and mistakes, by the command and from Python, of a net that knows digits."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import h5py
import numpy as np
import pytest
from PIL import Image

from mxtrain.core.errors import DATA, DataError, UsageError
from mxtrain.predict import command as command_of_predict
from mxtrain.predict import predict
from tests.support.commands import ROOT, Command
from tests.support.comparing import assert_close
from tests.support.data.binary_sources import datum, example, tfrecord, write_lmdb
from tests.support.processes.peak_memory import peak
from tests.support.runs import records

TIMEOUT_SECONDS = 60


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def judged(trained_digits: Path) -> tuple[list[dict[str, Any]], int]:
    """The worst samples of the best checkpoint, of equals the newest, as evaluation told them; how many were wrong."""
    best = max(records(trained_digits, "eval"), key=lambda each: (each["val_accuracy"], each["step"]))
    (worst,) = [each for each in records(trained_digits, "worst") if each["step"] == best["step"]]
    return worst["samples"], round((1 - best["val_accuracy"]) * best["num_samples"])


def test_a_rec_is_judged_as_by_the_evaluation(
    trained_digits: Path, digits: Path, judged: tuple[list[dict[str, Any]], int]
) -> None:
    found = predict(trained_digits, digits / "val.rec")
    assert len(found) == 179
    keys = [each["image"].rpartition(":")[2] for each in found]
    names = sorted(path.name for path in (digits / "images").iterdir())
    for sample in judged[0]:
        likeliest = found[sample["sample"]]["classes"][0]
        assert likeliest["class"] == names[sample["predicted"]]
        assert likeliest["probability"] == pytest.approx(sample["probability"], abs=1e-6)
    assert keys == [str(key) for key in range(179)]


def test_mistakes_are_those_of_the_evaluation(
    trained_digits: Path,
    digits: Path,
    judged: tuple[list[dict[str, Any]], int],
    command: Command,
    tmp_path: Path,
) -> None:
    told = ["--mistakes", 20, "--json", "--mistakes-out", tmp_path / "wrong"]
    done = command("mxtrain.predict", trained_digits, digits / "val.rec", *told)
    assert done.returncode == 0, done.stderr
    names, wrong = sorted(path.name for path in (digits / "images").iterdir()), lines(done.stdout)
    worst = [each for each in judged[0] if each["label"] != each["predicted"]]
    assert len(wrong) == min(20, judged[1]) and f"{judged[1]} mistakes among 179 samples" in done.stderr
    for each, expected in zip(wrong, worst):
        assert (each["label"], each["predicted"]) == tuple(names[expected[n]] for n in ("label", "predicted"))
        numbers = {name: expected[name] for name in ("loss", "probability")}
        assert_close(each, numbers, 1e-5, may_have_more=True)
        assert each["image"] == f"{digits}/val.rec:{expected['sample']}"
        assert Path(each["source"]).parts[0] == each["label"]
    pictures = sorted((tmp_path / "wrong").iterdir())
    assert [path.read_bytes() for path in pictures] == [
        (digits / "images" / each["source"]).read_bytes() for each in wrong
    ]
    assert pictures[0].stem == f"{1:0{len(str(len(wrong)))}d}-{wrong[0]['label']}-{wrong[0]['predicted']}"


def test_mistakes_in_a_folder_of_classes(trained_digits: Path, digits: Path, tmp_path: Path) -> None:
    for name in ("two", "eight"):
        (tmp_path / name).mkdir()
        for path in sorted((digits / "images" / name).iterdir())[:20]:
            shutil.copy(path, tmp_path / name)
    shutil.copy(digits / "images" / "one" / "0001.png", tmp_path / "two" / "a_one.png")
    (worst, *_) = predict(trained_digits, tmp_path, mistakes=1)
    assert worst["image"] == str(tmp_path / "two" / "a_one.png")
    assert (worst["label"], worst["predicted"]) == ("two", "one")
    (tmp_path / "cats").mkdir()
    with pytest.raises(Exception, match="cats: is no class of the net"):
        predict(trained_digits, tmp_path, mistakes=1)


def test_a_folder_becomes_a_csv(trained_digits: Path, digits: Path, command: Command, tmp_path: Path) -> None:
    pictures = tmp_path / "in"
    odd = 'a,"b"\nc.png'
    for number, name in enumerate((odd, "=x.png", "deep/er/z.png")):
        (pictures / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(digits / "images" / "zero" / f"00{10 * number:02d}.png", pictures / name)
    (pictures / "notes.txt").touch()
    out = tmp_path / "out.csv"
    done = command("mxtrain.predict", trained_digits, pictures, "--out", out, "--top", 2)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    with out.open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["image", "class_1", "probability_1", "class_2", "probability_2"]
    assert [(row[0], row[1]) for row in rows] == [
        (str(pictures / name), "zero") for name in ("=x.png", odd, "deep/er/z.png")
    ]
    assert "left out 1 files that are no pictures by their names (.txt 1)" in done.stderr
    assert f"3 answers in {out}" in done.stderr
    alone = predict(trained_digits, pictures / odd)[0]["classes"][0]["probability"]
    assert float(rows[1][2]) == pytest.approx(alone, abs=1e-6)


def write_tar(path: Path, pictures: list[Path]) -> Path:
    with tarfile.open(path, "w") as tar:
        for picture in pictures:
            tar.add(picture, picture.name)
    return path


def write_hdf5(path: Path, pictures: list[Path]) -> Path:
    with h5py.File(path, "w") as file:
        images = file.create_dataset("images", len(pictures), h5py.vlen_dtype(np.uint8))
        for number, picture in enumerate(pictures):
            images[number] = np.frombuffer(picture.read_bytes(), np.uint8)
    return path


def write_tfrecord(path: Path, pictures: list[Path]) -> Path:
    path.write_bytes(tfrecord(*(example(picture.read_bytes(), None) for picture in pictures)))
    return path


def write_lmdb_of(path: Path, pictures: list[Path]) -> Path:
    return write_lmdb(path, [datum(picture.read_bytes(), 7, encoded=True) for picture in pictures])


@pytest.mark.parametrize(
    ("name", "write", "item"),
    [
        ("a.tar", write_tar, r"a\.tar/\d{4}"),
        ("train-00000-of-00001", write_tfrecord, r"train-00000-of-00001:\d+"),
        ("a.h5", write_hdf5, r"a\.h5:\d+"),
        ("database", write_lmdb_of, r"database/\d{8}_x\.jpg"),
    ],
)
def test_pictures_in_an_archive_are_answered_in_its_order_without_labels(
    trained_digits: Path,
    digits: Path,
    tmp_path: Path,
    name: str,
    write: Callable[[Path, list[Path]], Path],
    item: str,
) -> None:
    pictures = sorted((digits / "images" / "nine").iterdir())[:12]
    expected = predict(trained_digits, pictures)
    (tmp_path / "folder").mkdir()
    archive = write(tmp_path / "folder" / name, pictures)
    is_one_of_several = name in ("a.tar", "train-00000-of-00001")
    for source in (archive, archive.parent) if is_one_of_several else (archive,):
        found = predict(trained_digits, source)
        assert [each["classes"] for each in found] == [each["classes"] for each in expected]
        assert all(re.fullmatch(f"{tmp_path}/folder/{item}", each["image"]) for each in found)


def test_a_folder_of_rec_files_is_these(trained_digits: Path, digits: Path, tmp_path: Path) -> None:
    for number in range(2):
        shutil.copy(digits / "val.rec", tmp_path / f"{number}.rec")
    found = predict(trained_digits, tmp_path)
    assert [each["image"] for each in found[178:180]] == [f"{tmp_path}/0.rec:178", f"{tmp_path}/1.rec:0"]
    assert len(found) == 2 * 179


def test_an_archive_that_is_damaged_is_named(trained_digits: Path, digits: Path, tmp_path: Path) -> None:
    pictures = sorted((digits / "images" / "nine").iterdir())[:3]
    path = write_tfrecord(tmp_path / "a.tfrecord", pictures)
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"a\.tfrecord: a\.tfrecord:\d+: its TFRecord checksum differs"):
        predict(trained_digits, path)


def test_of_a_pattern_each_file_is_named_and_a_bad_one_stops_no_other(
    trained_digits: Path, digits: Path, command: Command, tmp_path: Path
) -> None:
    for number in (6, 16):
        shutil.copy(digits / "images" / "six" / f"{number:04}.png", tmp_path)
    (tmp_path / "0001.png").write_bytes(b"GIF89a")
    done = command("mxtrain.predict", trained_digits, tmp_path / "00*.png", "--json", "--top", 1)
    assert done.returncode == DATA
    assert [Path(each["image"]).name for each in lines(done.stdout)] == ["0006.png", "0016.png"]
    assert "0001.png: it is damaged" in done.stderr and "1 of 3 inputs" in done.stderr
    (tmp_path / "0001.png").unlink()
    payload = (tmp_path / "0006.png").read_bytes()
    of_pattern, of_bytes = (predict(trained_digits, given) for given in (tmp_path / "00*.png", [payload] * 2))
    assert of_pattern[0] == {"image": str(tmp_path / "0006.png"), **of_bytes[0]}


@contextlib.contextmanager
def started(run: Path, *words: object, stdin: Any = subprocess.DEVNULL) -> Iterator[subprocess.Popen[bytes]]:
    line = [sys.executable, "-m", "mxtrain.predict", str(run), *map(str, words)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(line, cwd=ROOT, stdin=stdin, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_list_is_answered_as_it_comes_until_nobody_reads(trained_digits: Path, digits: Path) -> None:
    picture = os.fsencode(digits / "images" / "seven" / "0007.png")
    with started(trained_digits, "-", "--json", stdin=subprocess.PIPE) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write(picture + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["image"] == os.fsdecode(
            picture
        )  # while stdin is still open
        process.stdout.close()
        process.stdin.write(picture + b"\n")
        process.stdin.flush()
        assert process.stderr.read() == b""
        assert process.wait(TIMEOUT_SECONDS) == 0


def test_an_empty_stdin_is_said(trained_digits: Path, command: Command) -> None:
    done = command("mxtrain.predict", trained_digits, "-")
    assert done.returncode == DATA and done.stderr.startswith(
        "mxtrain.predict: standard input: is empty; give"
    )


@pytest.mark.slow  # one more end of a list, of which the test above has two
def test_a_closed_stdin_is_said_and_not_waited_for(trained_digits: Path) -> None:
    line = f"exec {sys.executable} -m mxtrain.predict {trained_digits} - <&-"
    done = subprocess.run(
        ["sh", "-c", line], cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
    )
    assert done.returncode == 2 and "-: standard input is closed" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)],  # which SIGTERM holds too
)
def test_a_signal_leaves_no_half_of_a_file(
    number: signal.Signals, trained_digits: Path, digits: Path, tmp_path: Path
) -> None:
    with started(trained_digits, "-", "--out", tmp_path / "out.csv", stdin=subprocess.PIPE) as process:
        assert process.stdin
        process.stdin.write(b"%s\n" % os.fsencode(digits / "images" / "seven" / "0007.png"))
        process.stdin.flush()
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not list(tmp_path.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert list(tmp_path.iterdir()), "it is at work on its file"
        process.send_signal(number)
        _, stderr = process.communicate(timeout=TIMEOUT_SECONDS)
        assert process.returncode == 128 + number and not list(tmp_path.iterdir())
        name = {signal.SIGTERM: "SIGTERM", signal.SIGINT: "Ctrl-C"}[number]
        assert stderr.decode().splitlines()[-1] == f"mxtrain.predict: stopped by {name}"


def test_features_are_what_the_head_takes(trained_digits: Path, digits: Path) -> None:
    from mxtrain.inference import predictor as predictors

    fives = digits / "images" / "five" / "00*.png"
    answers, features = (predict(trained_digits, fives, embed=each) for each in (False, True))
    assert len(answers) > 5
    assert [each["image"] for each in answers] == [each["image"] for each in features]
    opened = predictors.open_run(trained_digits, None, "cpu", {}, with_losses=False)
    with predictors.open_predictor(opened, "cpu") as predictor:
        *_, weight, bias = predictor.net.collect_params().values()
        scores = np.stack([each["features"] for each in features]) @ weight.data().asnumpy().T
        scores += bias.data().asnumpy()
    names = sorted(path.name for path in (digits / "images").iterdir())
    assert [names[row.argmax()] for row in scores] == [each["classes"][0]["class"] for each in answers]
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    likeliest = (shares / shares.sum(axis=1, keepdims=True)).max(axis=1)
    np.testing.assert_allclose(likeliest, [each["classes"][0]["probability"] for each in answers], atol=1e-5)


def any_pictures(folder: Path, seven: Image.Image) -> dict[str, Path]:
    """Write a picture in each form that a user may have it in."""
    exif = Image.Exif()
    exif[0x0112] = 6
    large = seven.resize((3000, 2000))
    wide = np.asarray(seven.convert("L"), np.uint16) * 257
    alpha = seven.convert("RGBA")
    forms: dict[str, tuple[Image.Image, dict[str, Any]]] = {
        "grey.png": (seven.convert("L"), {}),
        "alpha.png": (alpha, {}),
        "alpha.webp": (alpha, {"lossless": True}),
        "sixteen.png": (Image.fromarray(wide), {}),
        "palette.png": (seven.convert("RGB").quantize(16), {}),
        "bits.png": (seven.convert("1"), {}),
        "ink.jpg": (seven.convert("CMYK"), {"quality": 95}),
        "turned.jpg": (seven.convert("RGB").transpose(Image.ROTATE_90), {"exif": exif, "quality": 95}),
        "page.tif": (seven.convert("RGB"), {"compression": "tiff_lzw"}),
        "plain.bmp": (seven.convert("RGB"), {}),
        "first.gif": (
            seven.convert("RGB"),
            {"save_all": True, "append_images": [Image.new("RGB", seven.size)]},
        ),
        "moving.webp": (alpha, {"save_all": True, "append_images": [alpha.rotate(90)], "lossless": True}),
        "huge.jpg": (large.convert("RGB"), {"quality": 90, "progressive": True}),
    }
    for name, (picture, options) in forms.items():
        picture.save(folder / name, **options)
    return {name: folder / name for name in forms}


def test_any_picture_is_answered_and_what_is_none_is_named(
    trained_digits: Path, digits: Path, command: Command, tmp_path: Path
) -> None:
    with Image.open(digits / "images" / "seven" / "0007.png") as seven:
        pictures = any_pictures(tmp_path, seven.convert("RGB"))
    Image.new("RGB", (1, 1)).save(tmp_path / "tiny.png")
    whole = (tmp_path / "huge.jpg").read_bytes()
    bad = {
        "cut.jpg": whole[: len(whole) // 2],
        "empty.png": b"",
        "cut.gif": b"GIF89a\x01",
        "text.webp": b"text",
    }
    for name, content in bad.items():
        (tmp_path / name).write_bytes(content)
    os.mkfifo(tmp_path / "pipe.png")
    done = command("mxtrain.predict", trained_digits, tmp_path, "/dev/zero", "--json", "--top", 1)
    assert done.returncode == DATA and "Traceback" not in done.stderr
    found = {Path(each["image"]).name: each["classes"][0]["class"] for each in lines(done.stdout)}
    assert found.pop("tiny.png")
    assert found == dict.fromkeys(pictures, "seven")
    *named, count = [line for line in done.stderr.splitlines() if line.startswith("mxtrain.predict: ")]
    told = [Path(line.split(": ")[1]).name for line in named]
    assert told == ["cut.gif", "cut.jpg", "empty.png", "pipe.png", "text.webp", "zero"]
    assert count == "mxtrain.predict: 6 of 20 inputs could not be read; they are named above"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--mistakes 0", "--mistakes 0: give 1 or more"),
        ("--embed --mistakes 3", "--embed and --mistakes are two questions"),
        ("a.png --mistakes-out x", "--mistakes-out: goes with --mistakes N"),
        ("a.rec b.rec --mistakes 3", "--mistakes: takes one input; leave b.rec out"),
        ("a.png --json --format csv", "--json: is --format jsonl, and --format says csv"),
    ],
)
def test_words_that_do_not_go_together_are_refused_at_once(flags: str, words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)):
        command_of_predict(["--run", "none", *flags.split()])


def test_the_bytes_of_a_picture_stand_in_a_list() -> None:
    with pytest.raises(UsageError, match="inputs is a bytes; give a list of them"):
        predict("none", b"\xff\xd8")


def test_what_is_there_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "wrong").mkdir()
    for name in ("a.png", "wrong/1-one-two.png"):
        (tmp_path / name).write_bytes(b"there before")
    picture = f"{tmp_path}/a.png"
    for words, reason in (
        ([picture, "--out", f"{tmp_path}/wrong/../a.png"], "--out .* is an input"),
        (["--mistakes", "3", "--mistakes-out", picture], "--mistakes-out .* is a file; give a folder"),
        (["--mistakes", "3", "--mistakes-out", f"{tmp_path}/wrong"], "--mistakes-out .* holds files already"),
    ):
        with pytest.raises(UsageError, match=reason):
            command_of_predict(["--run", "none", *words])


def test_no_part_of_the_run_is_replaced_by_answers(
    trained_digits: Path, digits: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(trained_digits, tmp_path / "run"))
    before = (run / "metrics.jsonl").read_bytes()
    picture = str(digits / "images" / "six" / "0006.png")
    for given in (run, next((run / "checkpoints").glob("step-*"))):
        with pytest.raises(UsageError, match=r"--out .*metrics.jsonl: is a part of the run"):
            command_of_predict(["--run", str(given), picture, "--out", str(run / "metrics.jsonl")])
    assert (run / "metrics.jsonl").read_bytes() == before


@pytest.mark.parametrize("given", ["folder", "pattern", "rec", "mistakes", "mistakes_rec"])
@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_no_input_is_replaced_by_answers_however_it_is_named(
    trained_digits: Path, digits: Path, tmp_path: Path, given: str, link: Any
) -> None:
    folder, out = tmp_path / "pictures" / "one", tmp_path / "answers.csv"
    folder.mkdir(parents=True)
    shutil.copy(digits / "images" / "six" / "0006.png", folder / "a.png")
    for path in digits.glob("val.*"):
        shutil.copy(path, tmp_path)
    of_records = given in ("rec", "mistakes_rec")
    link(tmp_path / "val.idx" if of_records else folder / "a.png", out)
    before = out.read_bytes()
    words = {
        "folder": [tmp_path / "pictures"],
        "pattern": [tmp_path / "pictures" / "*" / "*.png"],
        "rec": [tmp_path / "*.rec"],
        "mistakes": ["--mistakes", 3, tmp_path / "pictures"],
        "mistakes_rec": ["--mistakes", 3, tmp_path / "val.rec"],
    }[given]
    with pytest.raises(UsageError, match=r"--out .* is an input"):
        command_of_predict(["--run", str(trained_digits), *map(str, words), "--out", str(out)])
    assert out.read_bytes() == before and not [path for path in tmp_path.iterdir() if ".tmp" in path.name]


@pytest.mark.parametrize("words", [["-"], ["--text", "-"]])
def test_what_stdin_reads_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    listed = tmp_path / "list.csv"
    listed.write_text("a.png\n")
    with listed.open() as stdin, monkeypatch.context() as changed:
        changed.setattr("sys.stdin", stdin)
        with pytest.raises(UsageError, match=r"--out .*list.csv: is an input"):
            command_of_predict(["--run", "none", *words, "--out", str(listed)])


@pytest.mark.slow  # tests/engine/inference/test_batching.py holds it by what is read ahead
def test_memory_does_not_grow_with_the_number_of_pictures(
    trained_digits: Path, digits: Path, tmp_path: Path
) -> None:
    peaks = []
    for count in (500, 10_000):
        folder = tmp_path / str(count)
        folder.mkdir()
        for number in range(count):
            (folder / f"{number:05}.png").symlink_to(digits / "images" / "six" / "0006.png")
        line = [sys.executable, "-m", "mxtrain.predict", trained_digits, folder, "--quiet"]
        peaks.append(peak([*line, "--out", tmp_path / f"{count}.csv"], cwd=ROOT))
        assert (tmp_path / f"{count}.csv").read_text().count("\n") == 1 + count
    assert peaks[1] < peaks[0] + 20, "megabytes"
