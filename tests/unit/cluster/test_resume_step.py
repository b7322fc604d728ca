"""The step that all workers resume from, by what their disks hold."""

from __future__ import annotations

import dataclasses

import pytest

from mxtrain.cluster.admission import resume_step
from mxtrain.cluster.admission.rendezvous import NodeInfo
from mxtrain.cluster.admission.resume_step import FRESH, ResumeChoice
from mxtrain.cluster.environment import NodeSpec
from tests.support.jobs.control_plane import node_info, node_spec


@pytest.mark.parametrize(
    ("disks", "step"),
    [
        ([("x", ()), ("y", ())], FRESH),
        ([("x", (5, 10)), ("y", (5,))], 5),
        ([("x", (5, 10)), ("y", (5, 10))], 10),
        ([("x", (10,)), ("x", (10,))], 10),
        ([("x", (5, 10)), ("y", (5, 10)), ("z", (1, 5))], 5),
    ],
)
def test_all_resume_from_the_newest_step_that_all_disks_hold(
    disks: list[tuple[str, tuple[int, ...]]], step: int
) -> None:
    workers = [
        node_info(f"worker-{n}", folder=folder, checkpoints=has) for n, (folder, has) in enumerate(disks)
    ]
    for is_restart in (False, True):
        assert resume_step.choose(workers, node_spec("scheduler", 1, is_restart=is_restart)) == ResumeChoice(
            step
        )


def test_an_empty_disk_is_named_with_what_to_copy() -> None:
    workers = [node_info("worker-0", folder="x"), node_info("worker-1", folder="y", checkpoints=(5, 10))]
    reason = resume_step.choose(workers, node_spec("scheduler", 1))
    assert isinstance(reason, str)
    assert reason.startswith("worker-0 (a, pid 1) has no checkpoint") and "step-00000010" in reason


RESTARTED = node_spec("scheduler", 1, job="ours", is_restart=True)
FIRST_ATTEMPT = dataclasses.replace(RESTARTED, is_restart=False)  # of a job that has the name of an older one


def workers_with(resume: str, *disks: dict[int, str]) -> list[NodeInfo]:
    """A worker on each disk, which holds steps of these jobs."""
    return [
        node_info(
            f"worker-{number}",
            folder=str(number),
            config={"resume": resume},
            checkpoints=tuple(disk),
            savers=tuple(disk.values()),
        )
        for number, disk in enumerate(disks)
    ]


@pytest.mark.parametrize("resume", ["auto", "never", "elsewhere/step-00000003"])
def test_a_death_while_the_first_checkpoint_is_written_starts_at_step_1(resume: str) -> None:
    workers = workers_with(resume, {10: "ours"}, {}, {10: "ours"})
    assert resume_step.choose(workers, RESTARTED) == ResumeChoice(FRESH)


@pytest.mark.parametrize(
    ("node", "disk"),
    [
        (FIRST_ATTEMPT, {10: "ours"}),
        (RESTARTED, {10: "theirs"}),
        (RESTARTED, {10: "theirs", 20: "ours"}),
        (RESTARTED, {10: "ours", 20: "ours"}),  # of step 10 both were known to be there
    ],
)
def test_a_host_that_has_lost_its_folder_ends_the_job(node: NodeSpec, disk: dict[int, str]) -> None:
    reason = resume_step.choose(workers_with("auto", disk, {}), node)
    assert isinstance(reason, str) and reason.startswith("worker-1 (a, pid 1) has no checkpoint")


@pytest.mark.parametrize("resume", ["never", "elsewhere/step-00000003"])
@pytest.mark.parametrize(
    ("disks", "step"),
    [
        ([{10: "ours"}, {10: "ours"}], 10),
        ([{10: "ours", 20: "ours"}, {10: "ours"}], 10),
        ([{5: "theirs", 10: "ours"}, {10: "ours"}], 10),
        ([{10: "theirs", 20: ""}, {10: "theirs"}], FRESH),
        ([{10: "ours", 90: "theirs"}, {10: "ours", 90: "theirs"}], 10),
    ],
)
def test_a_restarted_job_resumes_from_what_it_has_saved_itself_whatever_resume_says(
    resume: str, disks: list[dict[int, str]], step: int
) -> None:
    workers = workers_with(resume, *disks)
    assert resume_step.choose(workers, RESTARTED) == ResumeChoice(step)
    assert resume_step.choose(workers, FIRST_ATTEMPT) == ResumeChoice(FRESH)


def test_disks_without_a_common_step_are_named() -> None:
    reason = resume_step.choose(
        [
            node_info("worker-0", folder="x", checkpoints=(5,)),
            node_info("worker-1", folder="y", checkpoints=(7,)),
        ],
        node_spec("scheduler", 1),
    )
    assert isinstance(reason, str)
    assert "worker-0 (a, pid 1) has checkpoints of steps 5, worker-1 (a, pid 1) of 7" in reason


OURS = {480: "ours", 500: "ours"}


@pytest.mark.parametrize(
    ("outdated", "min_workers", "left_out"),
    [
        ([{80: "ours", 100: "ours"}], 2, [2]),  # left out for so long that the others have pruned its steps
        ([{80: "ours", 100: "ours"}], 1, [2]),
        ([{}], 2, [2]),  # a new host in its place
        ([{80: "ours", 100: "ours"}, {5: "theirs"}], 2, [2, 3]),
    ],
)
def test_with_min_workers_a_restarted_job_leaves_out_outdated_disks(
    outdated: list[dict[int, str]], min_workers: int, left_out: list[int]
) -> None:
    workers = workers_with("auto", OURS, OURS, *outdated)
    choice = resume_step.choose(workers, RESTARTED, min_workers)
    assert choice == ResumeChoice(500, tuple(workers[index] for index in left_out))


@pytest.mark.parametrize("outdated", [{}, {80: "ours", 100: "ours"}])
@pytest.mark.parametrize(("node", "min_workers"), [(RESTARTED, 0), (RESTARTED, 3), (FIRST_ATTEMPT, 2)])
def test_no_disk_is_left_out_without_min_workers_or_in_the_first_attempt(
    outdated: dict[int, str], node: NodeSpec, min_workers: int
) -> None:
    reason = resume_step.choose(workers_with("auto", OURS, OURS, outdated), node, min_workers)
    assert isinstance(reason, str) and "worker-2 (a, pid 1)" in reason


def test_a_disk_with_an_older_common_step_is_not_left_out() -> None:
    workers = workers_with("auto", OURS, OURS, {480: "ours"})
    assert resume_step.choose(workers, RESTARTED, min_workers=1) == ResumeChoice(480)


def test_an_outdated_majority_does_not_throw_away_what_enough_workers_have() -> None:
    workers = workers_with("auto", {80: "ours"}, {80: "ours"}, OURS)
    assert resume_step.choose(workers, RESTARTED, min_workers=1) == ResumeChoice(500, tuple(workers[:2]))
