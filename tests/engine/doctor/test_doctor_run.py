"""doctor with flags of fit: what bounds a run, measured in processes of their own."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from mxtrain.doctor import __main__ as doctor_command
from tests.support.commands import ROOT
from tests.tasks import cases
from tests.tasks.data import stripes

QUICK = (
    *("--model", "tests.support.nets.training_steps:quick_net", "--image-size", "16", "--val-resize", "16"),
    *("--batch-size", "16", "--augment"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("stripes")
    stripes.write(made, 96, 32)
    return made


def doctor(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mxtrain.doctor", "--train", str(folder / "train.rec"), *flags],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )


def found_by(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_loader_is_measured_alone_and_with_other_flags(folder: Path) -> None:
    before = set(Path(ROOT).iterdir())
    found = found_by(doctor(folder, *QUICK, "none", "--only", "data", "--seconds", "1", "--json"))
    assert found["data"]["as_given"]["median"] > 0 and found["compute"] is None
    tried = [entry["flags"] for entry in found["data"]["variants"]]
    assert {"loader": "threads", "loader_workers": "1"} in tried and {"cache": "ram"} in tried
    assert all(entry["rate"]["low"] <= entry["rate"]["high"] for entry in found["data"]["variants"])
    assert set(Path(ROOT).iterdir()) == before, "no run folder is made"


def test_what_each_way_takes_is_known_without_a_step(folder: Path) -> None:
    flags = [
        *["--model", "small_resnet", "--image-size", "32", "--batch-size", "16"],
        "--only",
        "memory",
        "--json",
    ]
    title, head, own, remat, *_ = found_by(doctor(folder, *flags))["memory"]["lines"]
    assert title.startswith("MB by process") and head.split()[-1] == "way"
    assert own.endswith("fits  as it is") and remat.endswith("fits  --remat")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--model", "small_cn"), "--model small_cn: unknown"),
        (("--only", "dta"), "--only dta: unknown; did you mean 'data'?"),
        (("--batch-size", "0"), "--batch-size 0: give 1 or more"),
        (("--comm",), "--comm is about this machine alone"),
        (("--jsn",), "unknown flag --jsn"),
        (("--mixup", "0.2", "--task", "arrays"), "--mixup"),
    ],
)
def test_what_fit_would_refuse_is_one_line(
    folder: Path, flags: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert doctor_command.main(["--train", str(folder / "train.rec"), *flags]) == 2
    said = capsys.readouterr()
    (line,) = said.err.splitlines()
    assert said.out == ""
    assert line.startswith(f"mxtrain.doctor: {message}")


def test_the_largest_micro_batch_and_a_learning_rate_are_found(folder: Path, tmp_path: Path) -> None:
    drawn = tmp_path / "rate.png"
    asked = ("--only", "micro-batch,rate", "--threads", "1", "--seconds", "1", "--rate-steps", "20")
    found = found_by(doctor(folder, *QUICK, "none", *asked, "--rate-plot", str(drawn), "--json"))
    tried = found["micro_batch"]["tried"]
    assert [each["size"] for each in tried] == [16] and found["micro_batch"]["largest"] == 16
    assert all(50e6 < each["peak_bytes"] < found["micro_batch"]["limit_bytes"] for each in tried)
    assert len(found["rate"]["losses"]) <= 20
    assert drawn.read_bytes().startswith(b"\x89PNG")


def test_what_does_not_fit_is_said(folder: Path) -> None:
    done = doctor(folder, *QUICK, "none", "--only", "micro-batch", "--memory", "40M", "--micro-batch", "1")
    assert done.returncode == 2
    assert "--micro-batch 1: does not fit into 40 MiB (it took" in done.stderr


@pytest.mark.slow  # of pictures above
@pytest.mark.parametrize("case", cases.ALL, ids=lambda case: case.name)
def test_runs_of_all_tasks_are_measured(case: cases.Case, tmp_path: Path) -> None:
    case.write(tmp_path, 64, 16)
    flags = shlex.split(case.flags.format(folder=tmp_path))
    found = found_by(
        doctor(
            tmp_path,
            "--val",
            str(tmp_path / "val.rec"),
            *flags,
            "--seconds",
            "2",
            "--batch-size",
            "16",
            "--json",
        )
    )
    assert found["data"]["as_given"]["median"] > 0 and found["compute"]["step"]["median"] > 0
    assert 0 <= found["compute"]["waiting"] <= 1 and found["compute"]["checkpoint_bytes"] > 0
    assert all(entry.get("rate") or entry["refusal"] for entry in found["data"]["variants"])


@pytest.mark.slow  # tests/cluster/sums/test_doctor_comm.py brings up the same cluster
def test_sums_of_a_nets_gradients_are_measured_over_a_cluster(folder: Path) -> None:
    cluster = ("--kvstore", "dist_sync", "--num-workers", "2", "--threads", "1", "--only", "comm")
    found = found_by(doctor(folder, *QUICK, "none", *cluster, "--json"))["comm"]
    assert found["rate"]["median"] > 0 and "over 2 workers on this machine" in found["text"]
    assert [entry["flags"] for entry in found["variants"]] == [{"compress": "2bit"}, {"num_servers": 2}]
    done = doctor(folder, *QUICK, "none", "--only", "comm")
    assert done.returncode == 2 and "--only comm: --kvstore device has no servers" in done.stderr


def test_a_signal_ends_it_with_all_that_it_started(folder: Path) -> None:
    line = [sys.executable, "-m", "mxtrain.doctor", "--train", str(folder / "train.rec"), *QUICK, "none"]
    with subprocess.Popen([*line, "--only", "data"], cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while not (started := psutil.Process(process.pid).children()) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.terminate()
        assert process.wait(timeout=60) == 143
    assert started
    _, alive = psutil.wait_procs(started, timeout=20)
    assert not alive


@pytest.mark.slow  # each part is measured in a process of its own, which takes 10 s
@pytest.mark.timeout(300)
def test_a_net_with_a_table_is_measured(tmp_path: Path) -> None:
    """Rows of the micro-batch to come are asked for while this one is computed: so are those of a measured step."""
    cases.RECOMMENDATION.write(tmp_path, 96, 32)
    flags = cases.RECOMMENDATION.flags.split()
    found = found_by(
        doctor(tmp_path, *flags, "--batch-size", "16", "--only", "data,compute", "--seconds", "2", "--json")
    )
    assert found["compute"]["rate"]["median"] > 0 and found["compute"]["step"]["median"] > 0
