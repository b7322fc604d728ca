"""Whatever happens during a write, an intact checkpoint is there before and after it."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from mxtrain.checkpoint import checked_files, directory
from mxtrain.checkpoint.directory import Snapshot

ROOT = Path(__file__).resolve().parents[3]


def snapshot(step: int) -> Snapshot:
    return Snapshot(step, {"weights.params": {"a": np.full(1000, step, np.float32)}}, {"score": None})


def newest_step(folder: Path) -> int:
    found = directory.newest(folder)
    assert found is not None
    return int(found[1]["step"])


def test_killed_at_any_line_of_a_write() -> None:
    """And while the next process puts right what that left, and while it deletes what is not kept."""
    in_memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # many writes, each with fsync
    with tempfile.TemporaryDirectory(dir=in_memory) as folder:
        line = [sys.executable, "-m", "tests.support.processes.kill_points", f"{folder}/checkpoints"]
        done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 1000


LIMITED = """
import resource, sys
from pathlib import Path
from tests.unit.checkpoint.test_directory_crash import snapshot
from mxtrain.core.errors import UsageError
from mxtrain.checkpoint import checked_files, directory
for limit in (0, 1, 100, 1000, 4000, 4072):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
            directory.write(Path(sys.argv[1]), snapshot(2))
    except UsageError as error:
        print(error)
"""


def test_no_room_at_any_byte(tmp_path: Path) -> None:
    """A limit on the size of files fails in the middle of one, as a full disk does, and needs no root.

    The arrays take 4073 bytes.
    """
    directory.write(tmp_path, snapshot(1))
    line = [sys.executable, "-c", LIMITED, str(tmp_path)]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=60)
    said = done.stdout.splitlines()
    assert len(said) == 6 and all(
        "step-00000002: cannot be written (File too large)" in each for each in said
    )
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"], "nothing half-written holds space"
    directory.write(tmp_path, snapshot(2))
    assert newest_step(tmp_path) == 2
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def test_on_disk_before_it_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut may lose whatever was not synced: files and their names come before the rename."""
    synced: list[str] = []
    fsync, rename = os.fsync, Path.rename

    def noting_fsync(handle: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{handle}")).name)
        fsync(handle)

    def noting_rename(path: Path, target: Path) -> Path:
        synced.append("renamed")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", noting_fsync)
    monkeypatch.setattr(Path, "rename", noting_rename)
    directory.write(tmp_path, snapshot(1))
    files = ["weights.params", "state.json", "manifest.json", ".writing-step-00000001"]
    assert synced == [*files, "renamed", tmp_path.name]


def test_what_has_come_to_disk_is_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked_files, "SYNC_BYTES", 1000)
    arrays = {str(number): np.zeros(500, np.float32) for number in range(10)}
    advances: list[bool] = []
    directory.write(
        tmp_path, directory.Snapshot(1, {"weights.params": arrays}, {}), lambda: advances.append(True)
    )
    assert len(advances) == len(arrays) + 1, "after each array, and after the file"


@pytest.mark.parametrize("position", range(0, 100, 7))
def test_a_flipped_bit_anywhere_is_seen(tmp_path: Path, position: int) -> None:
    """In each file, at that hundredth of it."""
    for step in (1, 2, 3, 4):
        directory.write(tmp_path, snapshot(step))
    for step, name in ((2, "weights.params"), (3, "state.json"), (4, "manifest.json")):
        path = tmp_path / f"step-{step:08d}" / name
        content = bytearray(path.read_bytes())
        content[len(content) * position // 100] ^= 1 << position % 8
        path.write_bytes(content)
    assert newest_step(tmp_path) == 1


@pytest.mark.parametrize("damage", ["truncated", "a file is gone"])
def test_pruning_spares_the_only_whole_one(tmp_path: Path, damage: str) -> None:
    for step in (1, 2):
        path = directory.write(tmp_path, snapshot(step))
    if damage == "truncated":
        os.truncate(path / "weights.params", 10)
    else:
        (path / "weights.params").unlink()
    directory.prune(tmp_path, keep_last=1, keep_best=0)
    assert newest_step(tmp_path) == 1


@pytest.mark.parametrize("keep_best", [0, 1, 2])
def test_of_equals_the_newest_is_the_best(tmp_path: Path, keep_best: int) -> None:
    for step, score in enumerate([0.5, 0.9, 0.9, 0.1, 0.2], start=1):
        directory.write(tmp_path, Snapshot(step, snapshot(step).files, {"score": score}))
        directory.prune(tmp_path, keep_last=1, keep_best=keep_best)
    kept = [int(path.name[-1]) for path in sorted(tmp_path.iterdir())]
    assert kept == [2, 3, 5][2 - keep_best :]
    best = directory.best(tmp_path)
    assert best is not None and best[1]["step"] == (3 if keep_best else 5)
