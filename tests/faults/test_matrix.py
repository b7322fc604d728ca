"""The fault matrix: every role, fault and phase; the default suite has two faults that no other test comes near."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.case import FAULTS, MATRIX, SIGNALS, Case
from tests.faults.job import SUPERVISOR
from tests.faults.strike import RECOVERED, REFUSED, STOPPED, strike

KILLED, FROZEN = Case("server-0", "SIGKILL", "rendezvous"), Case("worker-1", "frozen", "evaluation")
MORE_WORKERS = [
    *(Case(role, "SIGKILL", "mid-epoch", num_workers=3) for role in ("scheduler", "server-0", "worker-2")),
    Case("worker-2", "SIGTERM", "checkpoint", num_workers=3),
    Case("worker-1", "frozen for 4 s", "first step", num_workers=3),
    Case("worker-3", "SIGKILL", "evaluation", num_workers=4),
    Case("worker-2", "frozen", "rendezvous", num_workers=4),
    Case(SUPERVISOR, "SIGKILL", "mid-epoch", num_workers=4),
]
ALLREDUCE = [
    Case(role, fault, phase, num_workers=num_workers, num_servers=0)
    for role, fault, phase, num_workers in (
        ("scheduler", "SIGKILL", "first step", 2),
        ("scheduler", "frozen for 4 s", "evaluation", 3),
        ("worker-0", "SIGKILL", "rendezvous", 2),
        ("worker-1", "SIGKILL", "mid-epoch", 2),
        ("worker-2", "frozen", "mid-epoch", 3),
        ("worker-0", "frozen for 0.7 s", "first step", 3),
        ("worker-1", "frozen for 4 s", "rendezvous", 4),
        ("worker-3", "SIGTERM", "checkpoint", 4),
        ("worker-1", "stray", "first step", 2),
        (SUPERVISOR, "SIGKILL", "mid-epoch", 4),
    )
]
OWNERS = [
    Case(role, fault, phase, num_workers=num_workers, num_servers=num_servers, kind="owners")
    for role, fault, phase, num_workers, num_servers in (
        ("server-0", "SIGKILL", "rendezvous", 2, 1),
        ("server-1", "SIGKILL", "mid-epoch", 3, 2),
        ("server-0", "SIGKILL", "checkpoint", 2, 1),
        ("server-0", "frozen", "evaluation", 2, 2),
        ("server-1", "frozen for 4 s", "first step", 3, 2),
        ("scheduler", "SIGKILL", "first step", 2, 1),
        ("worker-0", "SIGKILL", "rendezvous", 2, 1),
        ("worker-1", "SIGKILL", "mid-epoch", 2, 1),
        ("worker-2", "frozen", "checkpoint", 3, 2),
        ("worker-1", "SIGTERM", "mid-epoch", 4, 2),
        ("worker-1", "stray", "first step", 2, 1),
        (SUPERVISOR, "SIGKILL", "mid-epoch", 3, 1),
    )
]
TABLES = [
    Case(role, fault, phase, num_workers=num_workers, num_servers=num_servers, kind="tables")
    for role, fault, phase, num_workers, num_servers in (
        ("server-0", "SIGKILL", "rendezvous", 2, 1),
        ("server-1", "SIGKILL", "mid-epoch", 3, 2),
        ("server-2", "SIGKILL", "checkpoint", 2, 3),
        ("server-0", "SIGKILL", "checkpoint", 3, 1),
        ("server-1", "frozen", "evaluation", 2, 2),
        ("server-0", "frozen for 4 s", "first step", 3, 2),
        ("worker-0", "SIGKILL", "checkpoint", 2, 2),
        ("worker-1", "SIGKILL", "mid-epoch", 4, 2),
        ("worker-2", "frozen", "mid-epoch", 3, 2),
        ("worker-1", "SIGTERM", "mid-epoch", 2, 2),
        (SUPERVISOR, "SIGKILL", "checkpoint", 2, 2),
    )
]
STRANGERS = [
    Case(role, fault, phase)
    for role in ("scheduler", "server-0", "worker-1")
    for fault in FAULTS
    if fault not in SIGNALS
    for phase in ("start", "first step", "evaluation")
]


def expected_kinds(case: Case) -> set[str]:
    """The outcomes that a case may have: the group recovers, or the same command resumes after a stop."""
    if case.role == SUPERVISOR and case.fault in ("SIGKILL", "SIGTERM"):
        return {STOPPED} if case.phase != "exit" else {STOPPED, RECOVERED}
    if case.role.startswith("worker") and case.fault == "SIGTERM":
        return {STOPPED} if case.phase != "exit" else {STOPPED, RECOVERED}  # then there is nothing to stop
    if case.phase == "start" and case.fault.startswith("frozen"):
        return {RECOVERED, REFUSED}  # it is missing after --start-timeout, and named
    return {RECOVERED}


@pytest.mark.slow  # tests/faults/test_inside.py and tests/cluster/training/test_async_fit.py have one fault
@pytest.mark.timeout(240)
def test_a_job_recovers_from_two_faults_one_after_the_other(
    tmp_path: Path, data: list[str], undisturbed: tuple[object, ...]
) -> None:
    first, outcome = strike([KILLED, FROZEN], tmp_path, data, undisturbed)
    assert first.kind == outcome.kind == RECOVERED, outcome.output
    for words in ("server-0", "restart 1 of 3", "worker-1 (", "frozen", "3 attempts, and at the end"):
        assert words in outcome.output, outcome.output


@pytest.mark.slow  # each alone is in the matrix
@pytest.mark.timeout(240)
def test_a_worker_that_is_frozen_beside_its_supervisor_ends_with_it(
    tmp_path: Path, data: list[str], undisturbed: tuple[object, ...]
) -> None:
    """Nobody else ends a frozen process: the job waits until the supervisor goes on, which restarts it."""
    cases = [
        Case("supervisor", "frozen", "mid-epoch"),
        Case("worker-1", "frozen", "mid-epoch", pause_seconds=0.1),
    ]
    outcomes = strike(cases, tmp_path, data, undisturbed)
    assert [each.kind for each in outcomes] == [RECOVERED] * 2, outcomes[-1].output


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("case", [*MATRIX, *MORE_WORKERS, *ALLREDUCE, *OWNERS, *STRANGERS], ids=str)
def test_a_job_recovers_or_stops_resumably(
    case: Case, tmp_path: Path, data: list[str], undisturbed: tuple[object, ...]
) -> None:
    (outcome,) = strike([case], tmp_path, data, undisturbed)
    assert outcome.kind in expected_kinds(case), outcome.output


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("case", TABLES, ids=str)
def test_a_job_with_rows_on_servers_loses_none(
    case: Case, tmp_path: Path, data: list[str], undisturbed_tables: tuple[object, ...]
) -> None:
    (outcome,) = strike([case], tmp_path, data, undisturbed_tables)
    assert outcome.kind in expected_kinds(case), outcome.output
