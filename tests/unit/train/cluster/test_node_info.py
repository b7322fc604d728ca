"""A worker's description of itself for the rendezvous."""

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
from mxtrain.cluster.admission import rendezvous, resume_step
from mxtrain.config import autocast_costs
from mxtrain.core.errors import DataError
from mxtrain.core.system import kernels, wheels
from mxtrain.data.records import record_writer
from mxtrain.data.records.record_file import open_records
from mxtrain.data.user.user_datasets import UserBatches
from mxtrain.train.cluster import node_info
from tests.support.jobs.control_plane import node_spec

IDENTITY = {"node": "worker", "host": "a", "boot_id": "", "pid": 1}


def rec(path: Path, num_samples: int) -> Path:
    with record_writer.RecordWriter(path) as writer:
        for key in range(num_samples):
            writer.write(key, float(key % 2), b"picture")
    return path


def run_of(out: Path, *flags: str) -> config.Run:
    return config.parse(["--kvstore", "dist_sync", "--num-workers", "2", "--out", str(out), *flags])


def info_of(out: Path, records: Any, *flags: str) -> dict[str, Any]:
    run = run_of(out, *flags)
    return node_info.collect(
        run, records, None, InputIdentity.of_run(run, records, None, {"class_names": ["a", "b"]})
    )


def saved(out: Path, *steps: int) -> None:
    for step in steps:
        files = {"weights.params": {"a": np.ones(3, np.float32)}}
        directory.write(out / "checkpoints", Snapshot(step, files, {"score": None, "job": f"job {step}"}))


def test_the_same_data_elsewhere_is_described_alike(tmp_path: Path) -> None:
    here, there = (tmp_path / name for name in ("here", "there"))
    for folder in (here, there):
        folder.mkdir()
        rec(folder / "a.rec", 6)
    infos = [
        info_of(folder, open_records(folder / "a.rec"), "--loader-workers", "1") for folder in (here, there)
    ]
    assert infos[0]["data"] == infos[1]["data"] and infos[0]["config"] == infos[1]["config"]
    assert infos[0]["folder"] != infos[1]["folder"]
    other = info_of(here, open_records(rec(tmp_path / "b.rec", 7)))
    assert other["data"] != infos[0]["data"]
    for flags in (("--lr", "0.2"), ("--sums", "fast")):
        assert info_of(here, open_records(here / "a.rec"), *flags)["config"] != infos[0]["config"]


def test_tables_for_bfloat16_are_compared_by_their_times_and_not_by_their_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "onednn", lambda: "AVX512_CORE_BF16")
    records = open_records(rec(tmp_path / "a.rec", 6))
    shipped = json.loads(autocast_costs.SHIPPED.read_text())

    def digest(name: str, cast: float) -> Any:
        shipped["kernels"]["AVX512_CORE_BF16"]["cast"] = cast
        path = tmp_path / name
        path.write_text(json.dumps(shipped))
        return info_of(tmp_path, records, "--amp", "auto", "--amp-table", str(path))["config"]["amp_table"]

    assert digest("one.json", 1.0) == digest("same.json", 1.0) != digest("other.json", 2.0)
    assert info_of(tmp_path, records)["config"]["amp_table"] is None


def test_a_data_loader_is_described_by_its_size(tmp_path: Path) -> None:
    batches = UserBatches("mine:loader", [None] * 3, 16)
    assert info_of(tmp_path, batches, "--num-workers", "1")["data"]["train"].startswith("48 samples")


def test_workers_that_share_a_disk_read_one_folder_id(tmp_path: Path) -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: node_info._folder_id(tmp_path), range(40)))
    assert len(set(found)) == 1
    assert [path.name for path in tmp_path.iterdir()] == [".folder"]


def test_complete_checkpoints_are_offered_whatever_resume_says(tmp_path: Path) -> None:
    saved(tmp_path, 3, 6, 9)
    records = open_records(rec(tmp_path / "a.rec", 2))
    for wanted in ("auto", "never", str(tmp_path / "checkpoints" / "step-00000003")):
        found = info_of(tmp_path, records, "--resume", wanted)
        assert (found["checkpoints"], found["savers"]) == ([3, 6, 9], ["job 3", "job 6", "job 9"])


def test_a_new_start_needs_no_readable_checkpoint(tmp_path: Path) -> None:
    saved(tmp_path, 3)
    (tmp_path / "checkpoints" / "step-00000003" / "weights.params").unlink()
    records = open_records(rec(tmp_path / "a.rec", 2))
    assert info_of(tmp_path, records, "--resume", "never")["checkpoints"] == []
    with pytest.raises(DataError, match="none that can be read"):
        info_of(tmp_path, records)


def damage(out: Path, *steps: int) -> None:
    for step in steps:
        path = directory.path_of(out / "checkpoints", step) / "weights.params"
        path.write_bytes(path.read_bytes()[:-1] + b"?")


@pytest.mark.parametrize(
    ("damaged", "offered"),
    [((9,), [3, 6]), ((6,), [3, 9]), ((6, 9), [3]), ((3, 9), [6]), ((3, 6), [9]), ((), [3, 6, 9])],
)
def test_a_damaged_checkpoint_is_not_offered(
    tmp_path: Path, damaged: tuple[int, ...], offered: list[int]
) -> None:
    saved(tmp_path, 3, 6, 9)
    damage(tmp_path, *damaged)
    found = info_of(tmp_path, open_records(rec(tmp_path / "a.rec", 2)))
    assert found["checkpoints"] == offered and found["savers"] == [f"job {step}" for step in offered]


def test_workers_on_several_disks_resume_from_a_step_that_is_complete_on_all(tmp_path: Path) -> None:
    """Each has another one that only looks whole."""
    records, infos = open_records(rec(tmp_path / "a.rec", 2)), []
    for number, damaged in enumerate((6, 9)):
        out = tmp_path / str(number)
        saved(out, 3, 6, 9)
        damage(out, damaged)
        fields = json.loads(json.dumps({"role": "worker", **IDENTITY, **info_of(out, records)}))
        infos.append(rendezvous.parse_node_info(fields))
    assert resume_step.choose(infos, node_spec("worker", 1)) == resume_step.ResumeChoice(3)


def test_an_opencv_without_windows_is_no_other_version(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for name in ("opencv-python", "opencv-python-headless"):
        monkeypatch.setattr(wheels, "installed", lambda name=name: {"numpy": "2.5.5", name: "5.0.0.93"})
        found.append(wheels.versions())
    assert found[0] == found[1] and found[0]["opencv-python"] == "5.0.0.93"


def test_a_server_tells_what_it_was_given_be_it_a_default(tmp_path: Path) -> None:
    """So that one whose flags are another job's is refused."""
    own = node_info.explicit_flags(run_of(tmp_path, "--lr", str(config.Optim.lr)))
    assert own["lr"] == config.Optim.lr and "momentum" not in own
