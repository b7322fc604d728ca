"""Every role, struck in every way at every moment; the default suite has two that no other test comes near."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.case import MATRIX, RECOVERED, REFUSED, STOPPED, SUPERVISOR, Case, run

FIRST = [Case("server-0", "SIGKILL", "rendezvous"), Case("worker-1", "frozen", "evaluation")]
SEVERAL = [
    *(Case(role, "SIGKILL", "mid-epoch", num_workers=3) for role in ("scheduler", "server-0", "worker-2")),
    Case("worker-2", "SIGTERM", "checkpoint", num_workers=3),
    Case("worker-1", "frozen for 4 s", "first step", num_workers=3),
    Case("worker-3", "SIGKILL", "evaluation", num_workers=4),
    Case("worker-2", "frozen", "rendezvous", num_workers=4),
    Case(SUPERVISOR, "SIGKILL", "mid-epoch", num_workers=4),
]


def expected(case: Case) -> set[str]:
    """Work is gone on with, by the group itself or by the same command after it was told to stop."""
    if case.role == SUPERVISOR and case.fault in ("SIGKILL", "SIGTERM"):
        return {STOPPED} if case.phase != "exit" else {STOPPED, RECOVERED}
    if case.role.startswith("worker") and case.fault == "SIGTERM":
        return {STOPPED} if case.phase != "exit" else {STOPPED, RECOVERED}  # then there is nothing to stop
    if case.phase == "start" and case.fault.startswith("frozen"):
        return {RECOVERED, REFUSED}  # it is not there at --start-timeout, and named
    return {RECOVERED}


def judge(case: Case, tmp_path: Path, data: list[str], whole: tuple[object, ...]) -> None:
    outcome = run(case, tmp_path, data, whole)
    assert outcome.how in expected(case), outcome.said


@pytest.mark.timeout(240)
@pytest.mark.parametrize("case", FIRST, ids=str)
def test_a_job_goes_on_after(case: Case, tmp_path: Path, data: list[str], whole: tuple[object, ...]) -> None:
    judge(case, tmp_path, data, whole)


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("case", [case for case in [*MATRIX, *SEVERAL] if case not in FIRST], ids=str)
def test_a_job_takes(case: Case, tmp_path: Path, data: list[str], whole: tuple[object, ...]) -> None:
    judge(case, tmp_path, data, whole)
