"""Rates of reading files, measured on real ones, and what is advised for the numbers of others."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from mxtrain.core.errors import DataError
from mxtrain.doctor.machine import disk_advice, disk_rates
from mxtrain.doctor.machine.disk_advice import Near

GB, MB = 10**9, 10**6
MOUNTS = r"""
22 1 0:1 / / rw - overlay overlay rw
23 22 0:2 / /data rw - lustre 10.0.0.1@o2ib:/scratch rw
24 23 0:3 / /data/my\040disk rw master:1 - ext4 /dev/sda1 rw
25 22 0:4 / /hdfs rw - fuse.hadoop-fuse-dfs fuse_dfs rw
"""


def slow(**changes: Any) -> dict[str, Any]:
    """Return what is found of a file system that gives 40 MB/s in records."""
    return {
        "files": 3,
        "bytes": 100 * GB,
        "record_bytes": 100_000,
        "cold": 1.0,
        "file_system": {"type": "lustre", "mount": "/data", "source": "", "network": True},
        "records": {1: 10e6, 4: 36e6, 16: 40e6},
        "sequential": {1: 60e6, 4: 70e6, 16: 70e6},
        **changes,
    }


def test_real_files_are_measured_by_threads_in_bounded_time(tmp_path: Path) -> None:
    files = [tmp_path / "a.rec", tmp_path / "b.rec"]
    for number, file in enumerate(files):
        file.write_bytes(bytes(range(256)) * (1000 + 3000 * number))
    started = time.monotonic()
    found = disk_rates.of_files(files, record_bytes=5000, seconds=0.02)
    assert time.monotonic() - started < 5
    assert (found["files"], found["bytes"], found["record_bytes"]) == (2, 5000 * 256, 5000)
    for rates in (found["records"], found["sequential"]):
        assert set(rates) == {1, 4, 16}
        assert all(rate > 0 for rate in rates.values())
    assert 0 <= found["cold"] <= 1
    assert found["file_system"]["type"] != "unknown"
    text = "\n".join(disk_advice.in_words(found))
    assert "2 files" in text and "pieces of 5 kB at random" in text


def test_files_that_cannot_be_measured_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere.rec: No such file"):
        disk_rates.of_files([tmp_path / "nowhere.rec"])
    (tmp_path / "empty.rec").touch()
    with pytest.raises(DataError, match=r"empty.rec: it is empty"):
        disk_rates.of_files([tmp_path / "empty.rec"])


@pytest.mark.parametrize(
    ("path", "kind", "network"),
    [
        ("/data/x.rec", "lustre", True),
        ("/data/my disk/x.rec", "ext4", False),
        ("/database/x.rec", "overlay", False),
        ("/hdfs/x.rec", "fuse.hadoop-fuse-dfs", True),
    ],
)
def test_a_file_system_is_found_by_its_mount(path: str, kind: str, network: bool) -> None:
    found = disk_rates.file_system(path, MOUNTS)
    assert (found["type"], found["network"]) == (kind, network)


def test_nothing_is_advised_where_one_thread_is_fast_enough() -> None:
    assert disk_advice.advise(slow(), needed=8e6, free_memory=8 * GB) == []


@pytest.mark.parametrize(
    ("needed", "decoded", "near", "begins"),
    [
        (20e6, 0, None, "--loader-workers 4: "),  # 16 gain no more than a tenth
        (200e6, 4 * GB, None, "--cache ram"),
        (200e6, 400 * GB, Near("/local", 900e6, 900 * GB), "--cache disk --cache-dir /local"),
        (
            200e6,
            400 * GB,
            Near("/local", 700e6, 900 * GB),
            "copy the files to /local",
        ),  # decoded it is too slow
        (200e6, 400 * GB, Near("/local", 900e6, 200 * GB), "copy the files to /local"),
        (200e6, 400 * GB, Near("/local", 900e6, 20 * GB), "pack smaller pictures"),
        (200e6, 400 * GB, Near("/local", 30e6, 900 * GB), "pack smaller pictures"),
    ],
)
def test_the_first_cure_that_pays_is_advised(
    needed: float, decoded: int, near: Near | None, begins: str
) -> None:
    (advice,) = disk_advice.advise(slow(), needed, 20 * GB, decoded, near)
    assert advice.startswith(begins)
    assert f"the run needs {needed / MB:.3g} MB/s" in advice


def test_a_set_that_memory_holds_is_slow_in_the_first_epoch_only() -> None:
    (advice,) = disk_advice.advise(slow(bytes=3 * GB), 200e6, 20 * GB)
    assert "3 GB, stay in memory after the first epoch" in advice


def test_a_copy_is_advised_where_large_pieces_are_fast() -> None:
    (advice,) = disk_advice.advise(slow(sequential={1: 500e6, 4: 500e6, 16: 500e6}), 200e6, 20 * GB)
    assert advice.startswith("copy the files to a local disk (in large pieces they are read at 500 MB/s)")


def test_files_in_memory_say_nothing_about_their_disk() -> None:
    (advice,) = disk_advice.advise(slow(cold=0.1), 200e6, 20 * GB)
    assert "nothing is known of lustre at /data" in advice
