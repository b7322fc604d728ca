"""Workers whose --out is on a disk of its own, one of which dies before what the other has is on its own disk."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.cluster.processes import children
from tests.cluster.test_elastic import free_port
from tests.cluster.test_ps_sh import ROLES, all_started
from tests.e2e.conftest import ROOT
from tests.e2e.runs import curve, newest, wait_until

FLAGS = [
    *(
        "--model",
        "small_cnn",
        "--image-size",
        "8",
        "--val-resize",
        "8",
        "--augment",
        "none",
        "--threads",
        "1",
    ),
    *("--batch-size", "32", "--micro-batch", "16", "--max-steps", "20", "--start-timeout", "40"),
    *("--checkpoint-steps", "5", "--keep-last", "1", "--keep-best", "0"),
]
# Read by Python at its start: in the first life this step's checkpoint takes longer than the test.
SLOW_DISK = """
import os, time
fsync = os.fsync
def slow(handle):
    if "/.writing-{step}/" in os.readlink("/proc/self/fd/" + str(handle)) and os.environ["MXTRAIN_RESTARTS"] == "0":
        time.sleep(100)
    fsync(handle)
os.fsync = slow
"""


@pytest.mark.timeout(200)
@pytest.mark.parametrize(("step", "resume"), [(5, "auto"), (10, "never")])
def test_a_death_while_only_one_disk_has_the_newest_checkpoint(
    digits: Path, tmp_path: Path, step: int, resume: str
) -> None:
    """All begin anew if it was the first, else they go on from the one before, also where one said never."""
    disks = [tmp_path / "a", tmp_path / "b"]
    outs = [tmp_path / "scheduler", tmp_path / "server", *disks]
    name = f"step-{step:08d}"
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow" / "sitecustomize.py").write_text(SLOW_DISK.format(step=name))
    data = ["--train", str(digits / "train.rec"), "--resume", resume]
    given = ["--root", f"127.0.0.1:{free_port()}", "-n", "2", "-s", "1", "--", *data, *FLAGS, "--out"]
    lines = [
        [sys.executable, "-m", "mxtrain.launch", role, *given, str(out)] for role, out in zip(ROLES, outs)
    ]
    slow = {"PYTHONPATH": f"{tmp_path / 'slow'}:{os.environ.get('PYTHONPATH', ROOT)}"}
    with all_started(lines, [{}, {}, {}, slow]) as runs:
        wait_until((disks[0] / "checkpoints" / name).exists, runs[2])
        wait_until((disks[1] / "checkpoints" / f".writing-{name}").exists, runs[3])
        (worker,) = children(runs[3].pid)
        os.kill(worker, signal.SIGKILL)
        said = [run.communicate(timeout=100)[0] for run in runs]
        assert [run.returncode for run in runs] == [0] * 4, said
    for out in disks:
        (log,) = (out / "logs").glob("worker-*.log")
        assert ("/step-00000005\n" in log.read_text()) == (step == 10)
        assert newest(out).name == "step-00000020"
        assert [each["step"] for each in curve(out)] == list(range(1, 21))
    assert (newest(disks[0]) / "weights.params").read_bytes() == (
        newest(disks[1]) / "weights.params"
    ).read_bytes()
    assert [path.name for path in disks[0].glob("previous-*/checkpoints/*")] == [name] * (step == 5)
