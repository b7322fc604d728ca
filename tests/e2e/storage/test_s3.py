"""Runs on files in an S3 server of its own, moto's, behind a link that delays and fails."""

from __future__ import annotations

import threading
import time

import pytest

from benchmarks.storage.s3_server import SECRET
from mxtrain.core.errors import DATA
from tests.support.jobs.shapes_run import FLAGS, curve
from tests.support.runs import kill_at
from tests.support.stores.s3_keys import checking_keys

pytest.importorskip("moto")
pytest.importorskip("s3fs")
pytestmark = pytest.mark.slow
EPOCHS = ("--epochs", "2")


@pytest.fixture
def bucket(shapes, link, command):
    """The address of a folder with train.rec and val.rec."""
    import s3fs

    store = s3fs.S3FileSystem()
    if not store.exists("bucket"):
        store.mkdir("bucket")
    done = command(
        "tools.im2rec_wrapper", "upload", shapes / "train.rec", shapes / "val.rec", "s3://bucket/shapes"
    )
    assert done.returncode == 0, done.stderr
    return "s3://bucket/shapes"


def flags_of(bucket):
    return ["--train", f"{bucket}/train.rec", "--val", f"{bucket}/val.rec", *FLAGS, *EPOCHS]


@pytest.fixture(scope="module")
def local(shapes, tmp_path_factory, command):
    """The curve of the same run on local files."""
    out = tmp_path_factory.mktemp("local") / "run"
    train, val = shapes / "train.rec", shapes / "val.rec"
    done = command("mxtrain.fit", "--train", train, "--val", val, *FLAGS, *EPOCHS, "--out", out)
    assert done.returncode == 0, done.stderr
    return curve(out)


@pytest.mark.parametrize("loader", ["threads", "processes"])
def test_a_run_has_the_bits_of_local_files_and_keeps_no_secret(
    bucket, link, local, tmp_path, command, loader
):
    link.delay = 0.05
    done = command("mxtrain.fit", *flags_of(bucket), "--loader", loader, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert curve(tmp_path / "run") == local
    assert SECRET not in done.stdout + done.stderr
    page = command("mxtrain.report", tmp_path / "run")
    assert page.returncode == 0 and (tmp_path / "run" / "report.html").exists(), page.stderr
    for path in filter(lambda path: path.is_file(), tmp_path.rglob("*")):
        assert SECRET.encode() not in path.read_bytes(), path
    assert "s3://bucket/shapes/train.rec" in (tmp_path / "run" / "config.yaml").read_text()


def test_a_killed_run_goes_on_to_the_same_bits(bucket, local, tmp_path, command):
    flags = [*flags_of(bucket), "--out", tmp_path / "run", "--checkpoint-steps", "2"]
    kill_at(5, tmp_path / "log", *flags)
    done = command("mxtrain.fit", *flags)
    assert done.returncode == 0, done.stderr
    assert curve(tmp_path / "run") == local


def test_a_store_that_is_away_for_a_minute_is_waited_for(bucket, link, local, tmp_path, command):
    before = link.num_requests

    def fail():
        while link.num_requests < before + 3:  # in the middle of opening the files
            time.sleep(0.01)
        link.is_down = True
        time.sleep(60)
        link.is_down = False

    threading.Thread(target=fail, daemon=True).start()
    began = time.monotonic()
    done = command("mxtrain.fit", *flags_of(bucket), "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began > 60 and "it is tried again" in done.stderr
    assert curve(tmp_path / "run") == local


def test_a_store_that_stays_away_ends_in_a_line(bucket, link, tmp_path, command):
    link.is_down = True
    done = command("mxtrain.fit", *flags_of(bucket), "--storage-patience", "3", "--out", tmp_path / "run")
    assert done.returncode == DATA and "does not answer, tried for 3 s" in done.stderr
    assert SECRET not in done.stderr and "Traceback" not in done.stderr


def test_wrong_credentials_or_names_end_in_a_line(bucket, tmp_path, command):
    for train, words in (
        (f"{bucket}/none.rec", "s3://bucket/shapes/none.rec does not exist"),
        ("s3://nowhere/a.rec", "s3://nowhere/a.rec does not exist"),
        (f"{bucket}/none-*.rec", "no .rec file matches"),
        (bucket, "is a folder"),
    ):
        done = command("mxtrain.fit", "--train", train, *FLAGS, "--out", tmp_path / "run")
        assert done.returncode == DATA and words in done.stderr, done.stderr


def test_keys_that_the_store_does_not_take_end_in_a_line(bucket, server, tmp_path, command):
    for train in (f"{bucket}/train.rec", f"{bucket}/t*.rec"):
        with checking_keys(server):
            done = command("mxtrain.fit", "--train", train, *FLAGS, "--out", tmp_path / "run")
        assert done.returncode == DATA and "its store refuses access" in done.stderr, done.stderr
        assert SECRET not in done.stderr and "Traceback" not in done.stderr


def test_evaluate_and_predict_read_from_a_store(bucket, tmp_path, command):
    done = command("mxtrain.fit", *flags_of(bucket), "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    for line in (
        ["mxtrain.evaluate", tmp_path / "run", "--val", f"{bucket}/val.rec"],
        ["mxtrain.predict", tmp_path / "run", f"{bucket}/val.rec"],
    ):
        done = command(*line)
        assert done.returncode == 0, done.stderr


def test_weights_come_from_a_store(bucket, shapes, tmp_path, command):
    done = command(
        "mxtrain.fit", *flags_of(bucket), "--out", tmp_path / "run", "--mirror", "s3://bucket/runs/first"
    )
    assert done.returncode == 0, done.stderr
    for number, source in enumerate((tmp_path / "run", "s3://bucket/runs/first")):
        done = command(
            "mxtrain.fit", *flags_of(bucket), "--pretrained", source, "--out", tmp_path / f"{number}"
        )
        assert done.returncode == 0, done.stderr
    assert curve(tmp_path / "0") == curve(tmp_path / "1")


def test_a_run_goes_on_from_its_mirror_on_another_machine(bucket, local, tmp_path, command):
    flags = [*flags_of(bucket), "--mirror", "s3://bucket/runs/second", "--checkpoint-steps", "2"]
    kill_at(7, tmp_path / "log", *flags, "--out", tmp_path / "here")
    done = command("mxtrain.fit", *flags, "--out", tmp_path / "there")
    assert done.returncode == 0, done.stderr
    whole = {each[:2]: each for each in local}
    rest = curve(tmp_path / "there")
    assert len(rest) > 2 and all(whole[each[:2]] == each for each in rest)
    assert "fetching step-0" in done.stderr


def test_a_mirror_that_is_away_holds_nothing_up(bucket, link, local, tmp_path, command, monkeypatch):
    monkeypatch.setattr("mxtrain.checkpoint.run_mirror.PATIENCE", 0.5)
    flags = [*flags_of(bucket), "--mirror", "s3://nowhere/runs", "--out", tmp_path / "run"]
    done = command("mxtrain.fit", *flags)
    assert done.returncode == 0 and "--mirror s3://nowhere/runs: is behind" in done.stderr
    assert curve(tmp_path / "run") == local


def test_pack_writes_into_a_store(bucket, shapes, tmp_path, command):
    out = "s3://bucket/packed"
    done = command("tools.im2rec_wrapper", "pack", shapes / "images", out, "--split", 0.8)
    assert done.returncode == 0 and f"wrote {out}/train.rec" in done.stdout, done.stderr
    train, val = f"{out}/train.rec", f"{out}/val.rec"
    done = command("mxtrain.fit", "--train", train, "--val", val, *FLAGS, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr


def test_doctor_tells_what_an_epoch_asks_for(bucket, link, tmp_path, command):
    link.delay = 0.05
    done = command("mxtrain.doctor", "--train", f"{bucket}/train.rec", *FLAGS, "--seconds", 6)
    assert done.returncode == 0, done.stderr
    assert "an epoch asks for 1 ranges" in done.stdout and "the store answers after" in done.stdout
