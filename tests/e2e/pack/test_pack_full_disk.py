"""A pack that finds the disk full leaves its progress, from which the same command resumes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
TIMEOUT_SECONDS = 60
NUM_PICTURES, SIDE = 40, 48  # about 7 kB each

# With a checkpoint after each image, files may grow to so many bytes.
LIMITED = """
import resource, sys
from tools.im2rec_wrapper import __main__
from mxtrain.data.packing import pack_run
pack_run.CHECKPOINT_EVERY_SECONDS = 0
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
sys.exit(__main__.main(sys.argv[2:]))
"""


def limited(num_bytes, *arguments):
    line = [sys.executable, "-c", LIMITED, str(num_bytes), *map(str, arguments)]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)


def im2rec_wrapper(*arguments):
    return limited(1 << 30, *arguments)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    for number in range(NUM_PICTURES):
        path = folder / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 256, (SIDE, SIDE, 3), np.uint8)
        path.write_bytes(cv2.imencode(".png", pixels)[1].tobytes())
    (folder / "a" / "bad.png").write_bytes(b"bad")
    return folder


@pytest.fixture(scope="module")
def whole(pictures, tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "out"
    assert im2rec_wrapper("pack", pictures, out, *OPTIONS).returncode == 0
    return contents(out)


OPTIONS = ("--split", "0.75", "--shards", "2", "--skip-bad")


def assert_stopped_for_room(done, out, reason):
    assert done.returncode == 2, done.stderr
    (said,) = (line for line in done.stderr.splitlines() if "resuming after" not in line)
    assert "cannot be written" in said and str(out) in said
    assert said.endswith(f" ({reason}); make room; the same command resumes from here")
    assert sorted(path.name for path in out.parent.iterdir() if path.is_file()) == [f"{out.name}.journal"]
    assert {path.suffix for path in out.iterdir()} == {".partial"} and len(list(out.iterdir())) == 8


def test_a_pack_resumes_after_each_of_several_full_disks(pictures, whole, tmp_path):
    """Each run has more room; the journal is smaller than a .rec, so its lines are never cut."""
    out = tmp_path / "out"
    size = len(whole["train-00000-of-00002.rec"])
    for share in (0.3, 0.5, 0.9):
        assert_stopped_for_room(
            limited(int(share * size), "pack", pictures, out, *OPTIONS), out, "File too large"
        )
    num_done = [json.loads(line)[0] for line in (tmp_path / "out.journal").read_text().splitlines()[1:]]
    assert num_done == sorted(set(num_done)) and num_done[-1] > NUM_PICTURES // 2
    done = im2rec_wrapper("pack", pictures, out, *OPTIONS)
    assert (done.returncode, f"resuming after {num_done[-1]} of" in done.stderr) == (0, True), done.stderr
    assert contents(out) == whole
    assert sorted(os.listdir(tmp_path)) == ["out", "out.bad.tsv"]


def test_a_journal_with_an_incomplete_last_line_is_resumed_from(pictures, whole, tmp_path):
    out = tmp_path / "out"
    size = len(whole["train-00000-of-00002.rec"])
    limited(size // 2, "pack", pictures, out, *OPTIONS)
    with (tmp_path / "out.journal").open("ab") as journal:
        journal.write(b"[25, [[[")
    assert_stopped_for_room(limited(size * 3 // 4, "pack", pictures, out, *OPTIONS), out, "File too large")
    done = im2rec_wrapper("pack", pictures, out, *OPTIONS)
    assert "resuming after" in done.stderr, done.stderr
    assert contents(out) == whole


@pytest.mark.slow  # test_a_pack_resumes_after_each_of_several_full_disks has a limit of files in its place
@pytest.mark.system
def test_a_full_disk(pictures, whole, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=192k", "tmpfs", str(disk)], check=True, timeout=20)
    try:
        command = ("pack", pictures, disk / "out", *OPTIONS)
        assert_stopped_for_room(im2rec_wrapper(*command), disk / "out", "No space left on device")
        assert_stopped_for_room(im2rec_wrapper(*command), disk / "out", "No space left on device")
        subprocess.run(["mount", "-o", "remount,size=9m", str(disk)], check=True, timeout=20)
        done = im2rec_wrapper(*command)
        assert (done.returncode, "resuming after" in done.stderr) == (0, True), done.stderr
        assert contents(disk / "out") == whole
    finally:
        subprocess.run(["umount", str(disk)], check=True, timeout=20)
