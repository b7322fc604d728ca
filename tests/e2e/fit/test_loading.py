"""The loading flags, as a user gives them: they move no number of the curve, and what is bad is said."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from mxtrain.core.errors import DATA
from mxtrain.data.records.record_file import classes_path, open_records
from mxtrain.data.records.record_writer import RecordWriter
from tests.support.commands import Command
from tests.support.jobs.shapes_run import FLAGS, curve
from tests.support.process_tree import children
from tests.support.runs import records, warm_started

EPOCHS = ("--epochs", "2")


@pytest.fixture(scope="module")
def two_files(shapes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The training set in two halves; one picture of the second is cut short."""
    folder, whole = tmp_path_factory.mktemp("halves"), open_records(shapes / "train.rec")
    middle = len(whole) // 2
    for name, positions in (("a", range(middle)), ("b", range(middle, len(whole)))):
        with RecordWriter(folder / f"{name}.rec") as writer:
            for position in positions:
                key, label, payload = whole.read(position)
                damage = slice(0, -90) if position == middle + 3 else slice(None)
                writer.write(key, label, bytes(payload)[damage])
        shutil.copy(classes_path(shapes / "train.rec"), classes_path(folder / f"{name}.rec"))
    return folder


def test_neither_processes_nor_a_cache_nor_bounds_move_the_curve(
    shapes: Path, tmp_path: Path, command: Command
) -> None:
    shared = ["--train", str(shapes / "train.rec"), "--val", str(shapes / "val.rec"), *FLAGS, *EPOCHS]
    ways = {
        "threads": ["--loader", "threads", "--loader-workers", "2"],
        "processes": [
            *("--loader", "processes", "--prefetch-mb", "1", "--verify", "first-epoch"),
            *("--cache", "disk", "--cache-dir", str(tmp_path / "cache")),
        ],
    }
    for name, flags in ways.items():
        done = command("mxtrain.fit", *shared, "--out", tmp_path / name, *flags)
        assert done.returncode == 0, done.stderr
    assert curve(tmp_path / "processes") == curve(tmp_path / "threads")
    assert len(list((tmp_path / "cache").iterdir())) == 2


@pytest.mark.slow  # tests/unit/data/loading/test_worker_processes.py kills them
def test_workers_killed_while_it_trains_do_not_move_the_curve(
    shapes: Path, tmp_path: Path, command: Command
) -> None:
    shared = ["--train", str(shapes / "train.rec"), *FLAGS, *EPOCHS]
    assert command("mxtrain.fit", *shared, "--out", tmp_path / "threads").returncode == 0
    line = [*shared, "--out", str(tmp_path / "killed"), "--loader", "processes", "--prefetch-mb", "1"]
    with warm_started(*line) as process:
        killed: set[int] = set()
        while process.poll() is None:
            for pid in {*children(process.pid)} - killed:
                if len(killed) < 2 and (tmp_path / "killed/metrics.jsonl").exists():
                    with contextlib.suppress(ProcessLookupError):  # one that has just ended by itself
                        os.kill(pid, signal.SIGKILL)
                        killed.add(pid)
            time.sleep(0.02)
    assert process.returncode == 0
    assert len(killed) == 2
    assert curve(tmp_path / "killed") == curve(tmp_path / "threads")


def test_a_bad_record_ends_the_run_or_is_replaced_and_counted(
    two_files: Path, tmp_path: Path, command: Command
) -> None:
    shared = ["--train", f"{two_files}/*.rec", *FLAGS, *EPOCHS, "--sampling", "balanced"]
    refused = command("mxtrain.fit", *shared, "--out", tmp_path / "refused")
    assert refused.returncode == DATA
    assert "b.rec: record 3 (key" in refused.stderr.splitlines()[-1]
    done = command("mxtrain.fit", *shared, "--out", tmp_path / "done", "--skip-bad", "1")
    assert done.returncode == 0, done.stderr
    assert records(tmp_path / "done")[-1]["bad_records"] == 1
    assert "skipped, the next good record is used instead" in (tmp_path / "done/logs/fit.log").read_text()
