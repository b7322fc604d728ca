"""Packs that are stopped while a thread of theirs waits, and one that finds another at work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from mxtrain.core import interrupts
from tests.support.pack_command import ENVIRONMENT, ROOT, TIMEOUT_SECONDS, assert_one_line, im2rec_wrapper

WAITING = """
from pathlib import Path

def wait(text):
    Path(text).read_bytes()  # nobody writes into this pipe, so the packer waits
    return []
"""


@pytest.fixture
def waiting(tmp_path_factory):
    """A command whose thread waits, as for a disk that does not answer, while the pipe is open; without OUT."""
    folder = tmp_path_factory.mktemp("waiting")
    os.mkfifo(folder / "pipe")
    (folder / "waiting.py").write_text(WAITING)
    (folder / "words.txt").write_text(str(folder / "pipe"))
    environment = {**ENVIRONMENT, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}
    command = ["-m", "tools.im2rec_wrapper", "pack", str(folder / "words.txt"), "--tokenizer", "waiting:wait"]
    return [sys.executable, *command], environment, folder / "pipe"


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_stopped_pack_leaves_what_another_goes_on_with(waiting, tmp_path, number, exit_code):
    command, environment, pipe = waiting
    process = subprocess.Popen(
        [*command, str(tmp_path / "out")], env=environment, stderr=subprocess.PIPE, text=True
    )
    try:
        with pipe.open("wb"):  # returns once the packer reads it
            assert list(tmp_path.glob("out/*.partial"))
            process.send_signal(number)
            assert "the same command goes on" in process.stderr.readline()
            assert sorted(os.listdir(tmp_path)) == ["out", "out.journal"]
            assert sorted(os.listdir(tmp_path / "out")) == ["data.idx.partial", "data.rec.partial"]
        _, errors = process.communicate(timeout=TIMEOUT_SECONDS)
    finally:
        process.kill()
    assert (process.returncode, errors) == (exit_code, "")


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_second_signal_does_not_wait_for_the_disk(waiting, tmp_path, number, exit_code):
    command, environment, pipe = waiting
    process = subprocess.Popen(
        [*command, str(tmp_path / "out")], env=environment, stderr=subprocess.PIPE, text=True
    )
    try:
        with pipe.open("wb"):
            process.send_signal(number)
            assert "the same command goes on" in process.stderr.readline()
            process.send_signal(number)  # as timeout(1) does: the same wish
            time.sleep(0.3)
            assert process.poll() is None
            process.send_signal(number)
            _, errors = process.communicate(timeout=10)
    finally:
        process.kill()
    name = interrupts.MEANING[number]
    assert (process.returncode, errors) == (exit_code, f"im2rec_wrapper: left at once, on {name}\n")
    assert sorted(os.listdir(tmp_path)) == ["out", "out.journal"]


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_one_signal_ends_a_pack_whose_disk_never_answers(waiting, tmp_path, number, exit_code):
    command, environment, pipe = waiting
    process = subprocess.Popen(
        [*command, str(tmp_path / "out")], env=environment, stderr=subprocess.PIPE, text=True
    )
    try:
        with pipe.open("wb"):
            process.send_signal(number)
            _, errors = process.communicate(timeout=TIMEOUT_SECONDS)
    finally:
        process.kill()
    assert process.returncode == exit_code
    assert errors.endswith("im2rec_wrapper: left what has not ended in 5 s\n") and errors.count("\n") == 2
    assert sorted(os.listdir(tmp_path)) == ["out", "out.journal"]


def test_two_packs_into_one_place_refuse_each_other(waiting, tmp_path):
    command, environment, pipe = waiting
    process = subprocess.Popen([*command, str(tmp_path / "out")], env=environment, stderr=subprocess.DEVNULL)
    try:
        with pipe.open("wb"):
            source = pipe.with_name("words.txt")
            before = sorted(tmp_path.rglob("*"))
            assert_one_line(im2rec_wrapper("pack", source, tmp_path / "out"), 2, "another process packs")
            rec = tmp_path / "out" / "data.rec"
            assert_one_line(im2rec_wrapper("pack", source, rec), 2, "another process is writing")
            assert sorted(tmp_path.rglob("*")) == before
    finally:
        process.kill()
        process.wait()
