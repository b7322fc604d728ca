"""What a worker says of itself at the roll call."""

from __future__ import annotations

import concurrent.futures
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain import config
from mxtrain.checkpoint import directory
from mxtrain.checkpoint.directory import Snapshot
from mxtrain.checkpoint.input_identity import InputIdentity
from mxtrain.cluster import rendezvous
from mxtrain.core.errors import DataError
from mxtrain.data import record_writer
from mxtrain.data.record_file import open_records
from mxtrain.data.user_datasets import UserBatches
from mxtrain.train import node_info
from tests.support.control_plane import place

IDENTITY = {"node": "worker", "host": "a", "boot_id": "", "pid": 1}


def rec(path: Path, num_samples: int) -> Path:
    with record_writer.RecordWriter(path) as writer:
        for key in range(num_samples):
            writer.write(key, float(key % 2), b"picture")
    return path


def run_of(out: Path, *flags: str) -> config.Run:
    return config.parse(["--kvstore", "dist_sync", "--num-workers", "2", "--out", str(out), *flags])


def card_of(out: Path, records: Any, *flags: str) -> dict[str, Any]:
    run = run_of(out, *flags)
    return node_info.of_worker(run, records, None, InputIdentity.of_run(run, records, None, ["a", "b"]))


def saved(out: Path, *steps: int) -> None:
    for step in steps:
        files = {"weights.params": {"a": np.ones(3, np.float32)}}
        directory.write(out / "checkpoints", Snapshot(step, files, {"score": None, "job": f"job {step}"}))


def test_the_same_data_elsewhere_has_the_same_card(tmp_path: Path) -> None:
    here, there = (tmp_path / name for name in ("here", "there"))
    for folder in (here, there):
        folder.mkdir()
        rec(folder / "a.rec", 6)
    cards = [
        card_of(folder, open_records(folder / "a.rec"), "--loader-workers", "1") for folder in (here, there)
    ]
    assert cards[0]["data"] == cards[1]["data"] and cards[0]["config"] == cards[1]["config"]
    assert cards[0]["folder"] != cards[1]["folder"]
    other = card_of(here, open_records(rec(tmp_path / "b.rec", 7)))
    assert other["data"] != cards[0]["data"]
    assert card_of(here, open_records(here / "a.rec"), "--lr", "0.2")["config"] != cards[0]["config"]


def test_a_data_loader_has_a_card(tmp_path: Path) -> None:
    batches = UserBatches("mine:loader", [None] * 3, 16, 24)
    assert card_of(tmp_path, batches, "--num-workers", "1")["data"]["train"].startswith("48 samples")


def test_all_who_share_a_disk_read_one_name(tmp_path: Path) -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: node_info._folder_id(tmp_path), range(40)))
    assert len(set(found)) == 1
    assert [path.name for path in tmp_path.iterdir()] == [".folder"]


def test_what_it_could_go_on_from(tmp_path: Path) -> None:
    saved(tmp_path, 3, 6, 9)
    records = open_records(rec(tmp_path / "a.rec", 2))
    for wanted in ("auto", "never", str(tmp_path / "checkpoints" / "step-00000003")):
        found = card_of(tmp_path, records, "--resume", wanted)
        assert (found["checkpoints"], found["savers"]) == ([3, 6, 9], ["job 3", "job 6", "job 9"])


def test_who_begins_anew_is_not_kept_from_it_by_what_cannot_be_read(tmp_path: Path) -> None:
    saved(tmp_path, 3)
    (tmp_path / "checkpoints" / "step-00000003" / "weights.params").unlink()
    records = open_records(rec(tmp_path / "a.rec", 2))
    assert card_of(tmp_path, records, "--resume", "never")["checkpoints"] == []
    with pytest.raises(DataError, match="none that can be read"):
        card_of(tmp_path, records)


def damage(out: Path, *steps: int) -> None:
    for step in steps:
        path = directory.path_of(out / "checkpoints", step) / "weights.params"
        path.write_bytes(path.read_bytes()[:-1] + b"?")


@pytest.mark.parametrize(
    ("damaged", "offered"),
    [((9,), [3, 6]), ((6,), [3, 9]), ((6, 9), [3]), ((3, 9), [6]), ((3, 6), [9]), ((), [3, 6, 9])],
)
def test_a_damaged_checkpoint_is_none_of_them(
    tmp_path: Path, damaged: tuple[int, ...], offered: list[int]
) -> None:
    saved(tmp_path, 3, 6, 9)
    damage(tmp_path, *damaged)
    found = card_of(tmp_path, open_records(rec(tmp_path / "a.rec", 2)))
    assert found["checkpoints"] == offered and found["savers"] == [f"job {step}" for step in offered]


def test_workers_on_disks_of_their_own_agree_on_a_step_that_is_whole_on_all(tmp_path: Path) -> None:
    """Each has another one that only looks whole."""
    records, cards = open_records(rec(tmp_path / "a.rec", 2)), []
    for number, damaged in enumerate((6, 9)):
        out = tmp_path / str(number)
        saved(out, 3, 6, 9)
        damage(out, damaged)
        words = json.loads(json.dumps({"role": "worker", **IDENTITY, **card_of(out, records)}))
        cards.append(rendezvous.card_of(words))
    assert rendezvous.resume_step(cards, place("worker", 1)) == 3
