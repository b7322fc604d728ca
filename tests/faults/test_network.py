"""A network that is cut between two hosts during a job, and one that loses ps-lite's messages."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Iterator

import pytest

from mxtrain.core.errors import RESTART_ME
from tests.faults.case import DONE_SECONDS, REFUSED_SECONDS
from tests.faults.job import CLUSTER, STEPS_PER_EPOCH, result, started, wait_for
from tests.faults.two_host_job import TwoHostJob
from tests.support.hosts.lan import drop_arriving, drop_nothing, lan
from tests.support.hosts.two_hosts import NamespaceHost, two_hosts
from tests.support.runs import has_step

CUT_SECONDS = 5.0  # more than --silence-timeout


@contextlib.contextmanager
def cut_in_the_middle(folder: Path, *flags: str) -> Iterator[tuple[TwoHostJob, NamespaceHost]]:
    """Yield a job, and the host whose cable has just been cut."""
    with two_hosts() as hosts:
        job = TwoHostJob(hosts, folder, *flags)
        try:
            assert wait_for(lambda: has_step(job.out, STEPS_PER_EPOCH + 3), DONE_SECONDS), job.output()
            hosts[1].cut()
            yield job, hosts[1]
            assert job.traces.left_behind() == []
        finally:
            job.kill()


@pytest.mark.slow  # in small: tests/unit/cluster/test_coordinator_connections.py
@pytest.mark.system
@pytest.mark.timeout(240)
def test_after_a_cut_that_heals_both_hosts_resume(
    tmp_path: Path, data: list[str], undisturbed: tuple[object, ...]
) -> None:
    start_flags = ["--start-timeout", "40"]
    with cut_in_the_middle(tmp_path, *data, *start_flags) as (job, host):
        time.sleep(CUT_SECONDS)
        host.heal()
        assert wait_for(job.have_ended, DONE_SECONDS), job.output()
        assert set(job.codes().values()) == {0}, job.output()
    assert all("restart 1 of" in each for each in job.output().values())
    assert result(job.out) == undisturbed


@pytest.mark.slow  # in small: tests/unit/cluster/test_coordinator_connections.py
@pytest.mark.system
@pytest.mark.timeout(180)
def test_a_cut_of_three_seconds_is_waited_for(
    tmp_path: Path, data: list[str], undisturbed: tuple[object, ...]
) -> None:
    with cut_in_the_middle(tmp_path, *data, "--silence-timeout", "10") as (job, host):
        time.sleep(3)
        host.heal()
        assert wait_for(job.have_ended, DONE_SECONDS), job.output()
        assert set(job.codes().values()) == {0}, job.output()
    assert all("1 attempt" in each for each in job.output().values()), job.output()
    assert result(job.out) == undisturbed


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.timeout(240)
@pytest.mark.parametrize("deaf", [0, 1])
def test_a_way_that_is_cut_in_one_direction_is_named_and_the_job_goes_on_when_it_heals(
    deaf: int, tmp_path: Path, data: list[str], undisturbed: tuple[object, ...]
) -> None:
    with lan(2) as hosts:
        job = TwoHostJob(hosts, tmp_path, *data, "--start-timeout", "60")
        try:
            assert wait_for(lambda: has_step(job.out, STEPS_PER_EPOCH + 3), DONE_SECONDS), job.output()
            drop_arriving(hosts[deaf], 1, 65534)
            assert wait_for(lambda: "restart 1 of" in job.output()["scheduler"], REFUSED_SECONDS), (
                job.output()
            )
            drop_nothing(hosts[deaf])
            assert wait_for(job.have_ended, DONE_SECONDS), job.output()
            assert set(job.codes().values()) == {0}, job.output()
            assert job.traces.left_behind() == []
        finally:
            job.kill()
    assert "worker-1" in job.output()["scheduler"]
    assert result(job.out) == undisturbed


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.timeout(180)
def test_after_a_cut_that_does_not_heal_both_hosts_give_up_and_name_the_missing_worker(
    tmp_path: Path, data: list[str]
) -> None:
    limits = ["--max-restarts", "1", "--start-timeout", "15"]
    with cut_in_the_middle(tmp_path, *data, *limits) as (job, _):
        assert wait_for(job.have_ended, REFUSED_SECONDS), job.output()
        assert set(job.codes().values()) == {1}, job.output()
    output = job.output()
    assert "no route to it" in output.pop("worker-1"), output
    assert all("worker-1 did not come to" in each for each in output.values()), output


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_network_that_loses_all_messages_ends_the_job_and_leaves_stacks(
    tmp_path: Path, data: list[str]
) -> None:
    """ps-lite never sends a message again, so the wait for a lost one does not end."""
    flags = [*data, *CLUSTER, "--stall-timeout", "15", "--max-restarts", "0"]
    with started(tmp_path, *flags, PS_DROP_MSG="100") as job:
        assert wait_for(job.has_ended, 2 * REFUSED_SECONDS), job.logs()  # it has to start before
        assert job.process.returncode == RESTART_ME, job.output()
        assert job.traces.left_behind() == []
    assert "made no progress for 15" in job.output() and "most recent call first" in job.logs()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_network_that_loses_some_messages_makes_a_job_slower(
    tmp_path: Path, data: list[str], undisturbed: tuple[object, ...]
) -> None:
    flags = [*data, *CLUSTER, "--stall-timeout", "8", "--max-restarts", "9"]
    with started(tmp_path, *flags, PS_DROP_MSG="3") as job:
        assert wait_for(job.has_ended, 360)
        assert job.process.returncode == 0, job.output()
        assert job.traces.left_behind() == []
    assert result(job.out) == undisturbed
