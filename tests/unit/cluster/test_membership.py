"""Processes of another job at the same address, with the same counts and so the same token: they take no place."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from mxtrain.cluster.admission import membership
from mxtrain.cluster.agent import Agent
from mxtrain.cluster.channel import Timeouts
from mxtrain.core.errors import RESTART_ME, USAGE
from mxtrain.launch.local import free_port
from tests.support.jobs import control_plane
from tests.support.jobs.control_plane import NAMES, Node, exit_codes

OURS, THEIRS = {"config": {"lr": 0.06}}, {"config": {"lr": 0.05}}
PATIENT, HASTY = Timeouts(start=8, silence=4, stall=20), Timeouts(start=1.5, silence=4, stall=20)


class Job:
    """A job whose processes are started one by one, each with a run folder of its own, as on hosts with own disks."""

    def __init__(self, folder: Path, name: str, port: int, info: dict[str, Any], **common: Any):
        self.folder, self.name, self.port, self.info = folder / name, name, port, info
        self.common = {"timeouts": PATIENT, **common}

    def memory(self, name: str) -> Path:
        return self.folder / name / ".job"

    def start(self, *names: str, is_restart: bool = False) -> dict[str, Node]:
        return {name: self._start(name, is_restart) for name in names}

    def _start(self, name: str, is_restart: bool) -> Node:
        self.memory(name).parent.mkdir(parents=True, exist_ok=True)
        place = {"memory": self.memory(name), "is_restart": is_restart, "job": f"job {self.name}"}
        spec = control_plane.node_spec(name, self.port, **place)
        return Node(self.folder, spec, info=self.info, **self.common)


@pytest.fixture
def ours(tmp_path: Path) -> Job:
    """A job that has begun: its processes remember it."""
    job = Job(tmp_path, "a", free_port(), OURS)
    nodes = job.start(*NAMES)
    assert set(exit_codes(nodes).values()) == {0}, {name: node.output for name, node in nodes.items()}
    assert {membership.remembered(job.memory(name)) for name in NAMES} == {"job a"}
    return job


def test_a_restarted_job_takes_its_own_processes_back_and_no_others(tmp_path: Path, ours: Job) -> None:
    """Both with its flags and with others; the first to come are the strangers."""
    twin = Job(tmp_path, "b", ours.port, OURS).start("worker-1", is_restart=True)
    other = Job(tmp_path, "c", ours.port, THEIRS).start("server-0", "worker-1")
    scheduler = ours.start("scheduler", is_restart=True)
    for stray in (*twin.values(), *other.values()):
        assert stray.exit_code() == USAGE, stray.output
        assert "another job holds 127.0.0.1:" in stray.last_words, stray.last_words
        assert "give this job another DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT" in stray.last_words
        assert stray.last_words.count("\n") == 1
    nodes = {**scheduler, **ours.start(*NAMES[1:], is_restart=True)}
    assert set(exit_codes(nodes).values()) == {0}, {name: node.output for name, node in nodes.items()}


def test_a_stray_that_knocks_at_a_job_at_work_is_refused_at_once(tmp_path: Path) -> None:
    leave = tmp_path / "leave"

    def work(me: Agent) -> None:
        (tmp_path / f"{me.name}.busy").touch()
        control_plane.wait_for_file(leave)
        me.finish()

    port = free_port()
    job = Job(tmp_path, "a", port, OURS)
    nodes = job.start(*NAMES[:2])
    job.common["script"] = work
    nodes.update(job.start(*NAMES[2:]))
    control_plane.wait_for_file(tmp_path / "worker-1.busy")
    (stray,) = Job(tmp_path, "b", port, OURS).start("worker-1").values()
    assert stray.exit_code() == USAGE and "another job holds" in stray.last_words
    leave.touch()
    assert set(exit_codes(nodes).values()) == {0}


def test_a_new_host_of_a_job_is_known_by_a_checkpoint_of_the_jobs(tmp_path: Path, ours: Job) -> None:
    disk = {"checkpoints": [4], "savers": ["job a"], "folder": "new"}
    replaced = Job(tmp_path, "a-new", ours.port, {**OURS, **disk})
    nodes = ours.start("scheduler", "server-0", is_restart=True)
    nodes.update(Job(tmp_path, "a", ours.port, {**OURS, **disk}).start("worker-0", is_restart=True))
    nodes.update(replaced.start("worker-1"))
    assert set(exit_codes(nodes).values()) == {0}, {name: node.output for name, node in nodes.items()}


def test_a_restarted_worker_waits_while_another_jobs_scheduler_has_the_port(
    tmp_path: Path, ours: Job
) -> None:
    """So does its own scheduler; the other one finds that nobody comes to it, and ends."""
    (stray,) = Job(tmp_path, "b", ours.port, THEIRS).start("scheduler").values()
    control_plane.wait_for_output(stray, "here: scheduler")
    nodes = ours.start(*NAMES, is_restart=True)
    control_plane.wait_for_output(stray, "another job has taken 127.0.0.1:")
    stray.process.kill()
    assert set(exit_codes(nodes).values()) == {0}, {name: node.output for name, node in nodes.items()}


def test_a_scheduler_that_is_started_anew_in_its_run_folder_takes_its_jobs_processes_back(
    tmp_path: Path, ours: Job
) -> None:
    """As after a reboot of its host: its supervisor knows of no attempt, and names the job anew."""
    anew = Job(tmp_path, "anew", ours.port, OURS)
    membership.remember(ours.memory("scheduler"), "job a")
    anew.memory("scheduler").parent.mkdir(parents=True)
    membership.remember(anew.memory("scheduler"), "job a")
    nodes = {**anew.start("scheduler"), **ours.start(*NAMES[1:], is_restart=True)}
    assert set(exit_codes(nodes).values()) == {0}, {name: node.output for name, node in nodes.items()}
    assert membership.remembered(ours.memory("worker-1")) == "job anew"


def test_in_a_first_rendezvous_strays_with_other_flags_give_way(tmp_path: Path) -> None:
    """They wait for their own scheduler, which did not get the port."""
    port = free_port()
    strays = Job(tmp_path, "b", port, THEIRS).start("server-0", "worker-1")
    ours = Job(tmp_path, "a", port, OURS)
    nodes = ours.start("scheduler")
    for name in strays:
        control_plane.wait_for_output(nodes["scheduler"], f"here: {name}")
    nodes.update(ours.start(*NAMES[1:]))
    for stray in strays.values():
        assert stray.exit_code() == USAGE, stray.output
        assert f"if it is of another job than the one at 127.0.0.1:{port}, that another" in stray.last_words
    assert set(exit_codes(nodes).values()) == {0}, {name: node.output for name, node in nodes.items()}


def test_a_stray_gives_way_also_before_the_scheduler_has_joined_its_own_rendezvous(tmp_path: Path) -> None:
    """It waits for a scheduler, so that it is often the first at the port."""
    port, join = free_port(), tmp_path / "join"
    (stray,) = Job(tmp_path, "b", port, THEIRS).start("server").values()
    job = Job(tmp_path, "a", port, OURS, joins_after=join)
    nodes = job.start("scheduler")
    control_plane.wait_for_output(nodes["scheduler"], "here: server")
    job.common["joins_after"] = None
    nodes.update(job.start("server"))
    assert stray.exit_code() == USAGE, stray.output
    assert "that another DMLC_PS_ROOT_URI" in stray.last_words
    join.touch()
    nodes.update(job.start("worker-0", "worker-1"))
    assert set(exit_codes(nodes).values()) == {0}, {name: node.output for name, node in nodes.items()}


def test_a_stray_that_comes_second_to_a_place_is_told_the_way_out(tmp_path: Path) -> None:
    """It starts again, as a process of the job may meet what is left of itself, and is refused for good then."""
    port = free_port()
    nodes = Job(tmp_path, "a", port, OURS).start("scheduler", "worker-1")
    control_plane.wait_for_output(nodes["scheduler"], "here: worker-1")
    (stray,) = Job(tmp_path, "b", port, THEIRS).start("worker-1").values()
    assert stray.exit_code() == RESTART_ME, stray.output
    assert "comes as a second worker-1" in stray.last_words
    assert (
        "if it is of another job, give that another DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT"
        in stray.last_words
    )
    nodes.update(Job(tmp_path, "a", port, OURS).start("server-0", "worker-0"))
    assert set(exit_codes(nodes).values()) == {0}, {name: node.output for name, node in nodes.items()}


def test_a_wrong_flag_is_named_at_once_where_it_is_and_to_all_after_the_start_timeout(tmp_path: Path) -> None:
    port, began = free_port(), time.monotonic()
    nodes = Job(tmp_path, "a", port, OURS, timeouts=HASTY).start(*NAMES[:3])
    wrong = Job(tmp_path, "b", port, THEIRS, timeouts=HASTY).start("worker-1")
    assert set(exit_codes(wrong, 1).values()) == {USAGE}
    codes = exit_codes(nodes)
    assert set(codes.values()) == {USAGE} and time.monotonic() - began < 10
    for node in (*wrong.values(), *nodes.values()):
        assert "worker-1 (" in node.last_words and "has --lr 0.05, but scheduler (" in node.last_words


def test_with_min_workers_a_guest_joins_at_the_next_attempt_if_there_is_room(tmp_path: Path) -> None:
    leave = tmp_path / "leave"

    def work(me: Agent) -> None:
        (tmp_path / f"{me.name}.busy").touch()
        control_plane.wait_for_file(leave, 20)
        me.finish()

    port = free_port()
    job = Job(tmp_path, "a", port, OURS, timeouts=HASTY, min_workers=1)
    nodes = job.start(*NAMES[:2])
    job.common["script"] = work
    nodes.update(job.start("worker-0"))
    control_plane.wait_for_file(tmp_path / "worker-0.busy", 15)
    (stray,) = Job(tmp_path, "b", port, THEIRS).start("worker-1").values()
    assert stray.exit_code() == USAGE, stray.output
    guest = Job(tmp_path, "c", port, OURS)
    (late,) = guest.start("worker-1").values()
    control_plane.wait_for_output(late, "waits for the job's next attempt")
    control_plane.wait_for_file(guest.memory("worker-1"))
    assert membership.remembered(guest.memory("worker-1")) == "job a"
    leave.touch()
    assert set(exit_codes({**nodes, "late": late}).values()) == {0}


def test_nothing_is_remembered_where_there_is_no_run_folder(tmp_path: Path) -> None:
    membership.remember(tmp_path / "none" / ".job", "job a")
    assert membership.remembered(tmp_path / "none" / ".job") == "" == membership.remembered(None)
    assert not (tmp_path / "none").exists()
