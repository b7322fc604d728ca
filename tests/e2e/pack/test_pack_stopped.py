"""Packs that are stopped while one of their threads waits, and a second pack into the same place."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

from mxtrain.core import interrupts
from tests.support.data.pack_command import (
    ENVIRONMENT,
    ROOT,
    TIMEOUT_SECONDS,
    assert_one_line,
    im2rec_wrapper,
)

WAITING = """
from pathlib import Path

def wait(text):
    Path(text).read_bytes()  # no process writes into this pipe, so the packer waits
    return []
"""
SIGNALS = pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])


@pytest.fixture
def source(tmp_path_factory):
    """A text whose tokenizer waits for a pipe beside it, as for a disk that does not answer."""
    folder = tmp_path_factory.mktemp("waiting")
    os.mkfifo(folder / "pipe")
    (folder / "waiting.py").write_text(WAITING)
    (folder / "words.txt").write_text(str(folder / "pipe"))
    return folder / "words.txt"


@contextlib.contextmanager
def waiting_pack(source, out):
    """A pack that waits until the yielded pipe is closed; the process is killed when the block ends."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tools.im2rec_wrapper", "pack", source, "--tokenizer", "waiting:wait", out],
        env={**ENVIRONMENT, "PYTHONPATH": os.pathsep.join([str(source.parent), str(ROOT)])},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        with source.with_name("pipe").open("wb") as pipe:  # returns once the packer reads it
            yield process, pipe
    finally:
        process.kill()
        process.wait()


@SIGNALS
def test_a_stopped_pack_leaves_files_to_resume_from(source, tmp_path, number, exit_code):
    with waiting_pack(source, tmp_path / "out") as (process, pipe):
        assert list(tmp_path.glob("out/*.partial"))
        process.send_signal(number)
        assert "the same command resumes" in process.stderr.readline()
        assert sorted(os.listdir(tmp_path)) == ["out", "out.journal"]
        assert sorted(os.listdir(tmp_path / "out")) == ["data.idx.partial", "data.rec.partial"]
        pipe.close()
        _, errors = process.communicate(timeout=TIMEOUT_SECONDS)
    assert (process.returncode, errors) == (exit_code, "")


@SIGNALS
def test_a_second_signal_does_not_wait_for_the_disk(source, tmp_path, number, exit_code):
    with waiting_pack(source, tmp_path / "out") as (process, _):
        process.send_signal(number)
        assert "the same command resumes" in process.stderr.readline()
        process.send_signal(number)  # as timeout(1) does: the same request
        time.sleep(0.3)
        assert process.poll() is None
        process.send_signal(number)
        _, errors = process.communicate(timeout=10)
    name = interrupts.MEANING[number]
    assert (process.returncode, errors) == (exit_code, f"im2rec_wrapper: left at once, on {name}\n")
    assert sorted(os.listdir(tmp_path)) == ["out", "out.journal"]


@SIGNALS
def test_one_signal_ends_a_pack_whose_disk_never_answers(source, tmp_path, number, exit_code):
    with waiting_pack(source, tmp_path / "out") as (process, _):
        process.send_signal(number)
        _, errors = process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode == exit_code
    assert errors.endswith("im2rec_wrapper: left what has not ended in 5 s\n") and errors.count("\n") == 2
    assert sorted(os.listdir(tmp_path)) == ["out", "out.journal"]


def test_two_packs_into_one_place_refuse_each_other(source, tmp_path):
    with waiting_pack(source, tmp_path / "out"):
        before = sorted(tmp_path.rglob("*"))
        assert_one_line(im2rec_wrapper("pack", source, tmp_path / "out"), 2, "another process packs")
        rec = tmp_path / "out" / "data.rec"
        assert_one_line(im2rec_wrapper("pack", source, rec), 2, "another process is writing")
        assert sorted(tmp_path.rglob("*")) == before
