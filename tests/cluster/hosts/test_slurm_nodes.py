"""Jobs on the two nodes of a real Slurm, from the batch script that `launch slurm` prints."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from tests.support.commands import ROOT
from tests.support.hosts.slurm_cluster import Slurm, slurm
from tests.support.jobs.short_run import ENDLESS, FLAGS, STEPS, assert_same_weights, is_under_way
from tests.support.process_tree import command_line

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

DEADLINE_SECONDS = 200


class Queue:
    """Jobs in the queue of a Slurm."""

    def __init__(self, made: Slurm, digits: Path):
        self.slurm = made
        self._data = ["--train", str(digits / "train.rec"), "--val", str(digits / "val.rec")]

    def submit(self, folder: Path, *more: str, num_workers: int = 2) -> str:
        """The job's number; it trains into FOLDER/run and writes FOLDER/log."""
        asked = ["--nodes", "2", "-n", str(num_workers), "-s", "1", "--cpus-per-node", "2"]
        asked += ["--time", "00:10:00"]
        flags = [*self._data, "--out", str(folder / "run"), *FLAGS, *more]
        line = [sys.executable, "-m", "mxtrain.launch", "slurm", *asked, "--", *flags]
        script = subprocess.run(line, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60).stdout
        (folder / "job").write_text(script)
        return self.slurm.do("sbatch", "--parsable", f"--output={folder}/log", str(folder / "job")).strip()

    def state(self, job: str) -> dict[str, str]:
        words = self.slurm.do("scontrol", "--oneliner", "show", "job", job).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def wait(self, happened: Callable[[], Any]) -> None:
        end = time.monotonic() + DEADLINE_SECONDS
        while not happened():
            assert time.monotonic() < end, self.slurm.do("scontrol", "show", "job")
            time.sleep(0.1)

    def wait_for_end(self, job: str) -> dict[str, str]:
        self.wait(
            lambda: self.state(job)["JobState"] not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING")
        )
        return self.state(job)

    def fit_processes(self) -> list[int]:
        found = [pid for host in self.slurm.hosts for pid in host.processes()]
        return [pid for pid in found if b"mxtrain" in command_line(pid)]


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> Iterator[Queue]:
    with slurm(tmp_path_factory.mktemp("slurm")) as made:
        yield Queue(made, digits)


@pytest.fixture(scope="module")
def undisturbed(queue: Queue, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    state = queue.wait_for_end(queue.submit(folder))
    assert (state["JobState"], state["NodeList"]) == ("COMPLETED", "na,nb"), (folder / "log").read_text()
    return folder / "run"


def test_a_job_on_two_nodes(queue: Queue, undisturbed: Path) -> None:
    assert {path.stem for path in (undisturbed / "logs").iterdir()} >= {"worker-0", "worker-1", "na", "nb"}
    log = (undisturbed.parent / "log").read_text()
    assert "worker-0 | done: val accuracy" in log
    assert re.search(r"^ +host nb +exit 0 ", log, re.M)
    assert not queue.fit_processes()


def test_before_its_time_is_up_a_job_saves_and_goes_back_into_the_queue(
    queue: Queue, undisturbed: Path, tmp_path: Path
) -> None:
    job = queue.submit(tmp_path, "--resume", "never")  # applies to the first attempt only
    queue.wait(lambda: is_under_way(tmp_path / "run"))
    queue.slurm.do("scancel", "--batch", "--signal=USR1", job)  # as Slurm does by itself with --signal=B:USR1
    state = queue.wait_for_end(job)
    log = (tmp_path / "log").read_text()
    assert (state["JobState"], state["Restarts"]) == ("COMPLETED", "1"), log
    assert "back into the queue" in log and "resuming from" in log
    assert not (tmp_path / "run" / "previous-1").exists()
    assert_same_weights(tmp_path / "run", undisturbed)


@pytest.mark.slow  # over ssh: tests/cluster/hosts/test_ssh_hosts.py
def test_a_death_on_one_node_restarts_both_in_the_same_allocation(
    queue: Queue, undisturbed: Path, tmp_path: Path
) -> None:
    """Three workers, two of them on one node, end with the bits of two."""
    job = queue.submit(tmp_path, num_workers=3)
    queue.wait(lambda: is_under_way(tmp_path / "run"))
    agents = [pid for pid in queue.slurm.hosts[1].processes() if b"\0host-agent\0" in command_line(pid)]
    os.kill(agents[-1], signal.SIGKILL)
    state = queue.wait_for_end(job)
    log = (tmp_path / "log").read_text()
    assert (state["JobState"], state["Restarts"]) == ("COMPLETED", "0"), log
    assert "host nb" in log and "restart 1 of 3" in log
    assert_same_weights(tmp_path / "run", undisturbed)


@pytest.mark.slow  # in test_rare_steps.py a run goes on with other numbers of workers again and again
def test_a_cancelled_job_goes_on_with_other_numbers_of_workers(
    queue: Queue, undisturbed: Path, tmp_path: Path
) -> None:
    """Three workers, then two, then three: the bits of two."""
    often = ["--checkpoint-steps", "5"]
    cancel_after_a_checkpoint(queue, tmp_path, queue.submit(tmp_path, *often, num_workers=3))
    cancel_after_a_checkpoint(queue, tmp_path, queue.submit(tmp_path, *often))
    assert newest_step(tmp_path / "run") < STEPS
    state = queue.wait_for_end(queue.submit(tmp_path, *often, num_workers=3))
    assert state["JobState"] == "COMPLETED", (tmp_path / "log").read_text()
    assert_same_weights(tmp_path / "run", undisturbed)


def cancel_after_a_checkpoint(queue: Queue, folder: Path, job: str) -> None:
    """Cancel a job once it has saved what it has computed, and wait until nothing of it is left."""
    before = newest_step(folder / "run")
    queue.wait(lambda: newest_step(folder / "run") > before)
    queue.slurm.do("scancel", job)
    queue.wait_for_end(job)
    queue.wait(lambda: not queue.fit_processes())


def newest_step(out: Path) -> int:
    return max((int(path.name[5:]) for path in (out / "checkpoints").glob("step-*")), default=0)


@pytest.mark.slow  # over ssh: tests/cluster/hosts/test_ssh_hosts.py
def test_a_cancelled_job_leaves_nothing_behind(queue: Queue, tmp_path: Path) -> None:
    job = queue.submit(tmp_path, *ENDLESS)
    queue.wait(lambda: is_under_way(tmp_path / "run"))
    queue.slurm.do("scancel", job)
    assert queue.wait_for_end(job)["JobState"] == "CANCELLED"
    queue.wait(lambda: not queue.fit_processes())


@pytest.mark.slow  # over ssh: tests/cluster/hosts/test_ssh_hosts.py
def test_a_refusal_fails_the_job_and_is_not_tried_again(queue: Queue, tmp_path: Path) -> None:
    state = queue.wait_for_end(queue.submit(tmp_path, "--train", str(tmp_path / "nowhere.rec")))
    assert (state["JobState"], state["ExitCode"], state["Restarts"]) == ("FAILED", "3:0", "0")
    assert "nowhere.rec does not exist" in (tmp_path / "log").read_text()


def test_doctor_examines_the_nodes_of_an_allocation(queue: Queue, tmp_path: Path) -> None:
    asked = [sys.executable, "-m", "mxtrain.doctor", "--hosts", "slurm", "--json", "--out", str(tmp_path)]
    found = json.loads(queue.slurm.do("salloc", "--quiet", "--nodes=2", "--ntasks-per-node=1", *asked))
    assert [(host["host"], host["address"], host.get("error")) for host in found["hosts"]] == [
        ("na", queue.slurm.hosts[0].address, None),
        ("nb", queue.slurm.hosts[1].address, None),
    ]
    assert len(found["pairs"]) == 2
    assert all(not pair["problems"] and pair["bytes_per_second"] > 1e6 for pair in found["pairs"])
