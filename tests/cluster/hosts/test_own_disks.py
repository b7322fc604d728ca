"""Workers with an --out on a disk of their own, one of which dies before it has the other's newest checkpoint."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from mxtrain.launch.local import free_port
from tests.support.commands import ROOT
from tests.support.jobs.ps_sh import ROLES, all_started
from tests.support.process_tree import children
from tests.support.runs import curve, newest, wait_until

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
# Read by Python at its start: in the first attempt the checkpoint of this step takes longer than the test, the first or
# the second time that it is written.
SLOW_DISK = """
import os, time
fsync = os.fsync
def slow(handle):
    folder, writing, _ = os.readlink("/proc/self/fd/" + str(handle)).partition("/.writing-{step}/")
    if writing and os.path.exists(folder + "/{step}") == {again} and os.environ["MXTRAIN_RESTARTS"] == "0":
        time.sleep(100)
    fsync(handle)
os.fsync = slow
"""


@pytest.mark.slow  # tests/unit/cluster/test_resume_step.py has the step that is chosen for disks like these
@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    ("step", "ahead", "resume", "again"),
    [
        (5, 5, "auto", False),
        (10, 10, "never", False),
        (10, 15, "auto", False),  # a worker waits for its write only when the next one is due
        (20, 20, "auto", True),
    ],
)
def test_a_death_while_only_one_disk_has_the_newest_checkpoint(
    digits: Path, tmp_path: Path, step: int, ahead: int, resume: str, again: bool
) -> None:
    """All start anew if it was the first checkpoint, else they resume from the one before, also with --resume never.

    The last checkpoint is written again with the score, which is then all that one disk has ahead of the other.
    """
    disks = [tmp_path / "a", tmp_path / "b"]
    outs = [tmp_path / "scheduler", tmp_path / "server", *disks]
    name, newest_elsewhere = (f"step-{number:08d}" for number in (step, ahead))
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow" / "sitecustomize.py").write_text(SLOW_DISK.format(step=name, again=again))
    data = ["--train", str(digits / "train.rec"), "--val", str(digits / "val.rec"), "--resume", resume]
    given = ["--root", f"127.0.0.1:{free_port()}", "-n", "2", "-s", "1", "--", *data, *FLAGS, "--out"]
    lines = [
        [sys.executable, "-m", "mxtrain.launch", role, *given, str(out)] for role, out in zip(ROLES, outs)
    ]
    slow = {"PYTHONPATH": f"{tmp_path / 'slow'}:{os.environ.get('PYTHONPATH', ROOT)}"}
    with all_started(lines, [{}, {}, {}, slow]) as runs:
        wait_until(lambda: has_score(disks[0] / "checkpoints" / newest_elsewhere) in (again, True), runs[2])
        wait_until((disks[1] / "checkpoints" / f".writing-{name}").exists, runs[3])
        (worker,) = children(runs[3].pid)
        os.kill(worker, signal.SIGKILL)
        said = [run.communicate(timeout=100)[0] for run in runs]
        assert [run.returncode for run in runs] == [0] * 4, said
    began = {5: [], 10: ["step-00000005"], 20: ["step-00000020"]}[step]
    for out in disks:
        (log,) = (out / "logs").glob("worker-*.log")
        assert re.findall(r"resuming from .*/(step-\d+)\n", log.read_text()) == began
        assert newest(out).name == "step-00000020"
        steps = [each["step"] for each in curve(out) if each["kind"] in ("train", "eval")]
        assert steps == [*range(1, 21), 20]
    assert (newest(disks[0]) / "weights.params").read_bytes() == (
        newest(disks[1]) / "weights.params"
    ).read_bytes()
    assert [path.name for path in disks[0].glob("previous-*/checkpoints/*")] == [name] * (step == 5)


def has_score(checkpoint: Path) -> bool | None:
    """True for a checkpoint with a score, None if there is no checkpoint."""
    try:
        return json.loads((checkpoint / "state.json").read_text())["score"] is not None
    except OSError:
        return None
