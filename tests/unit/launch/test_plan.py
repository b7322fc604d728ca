"""A job as plain data."""

from __future__ import annotations

import sys
from pathlib import Path

from mxtrain.config import Layout
from mxtrain.launch import plan

SPEC = plan.JobSpec("10.0.0.5", 9091, num_workers=2, num_servers=3)
LOGS = Path("runs/a/logs")


def test_one_command_serves_every_role() -> None:
    assert plan.fit_command(["--lr", "0.1"]) == (sys.executable, "-m", "mxtrain.fit", "--lr", "0.1")


def test_a_role_has_the_environment_that_a_tracker_gives() -> None:
    process = plan.node_process(SPEC, "worker-1", ("fit",), LOGS, MXTRAIN_NODE="worker-1")
    assert process.log == LOGS / "worker-1.log"
    assert process.role == "worker"
    assert process.argv == ("fit",)
    assert process.environment == {
        "DMLC_ROLE": "worker",
        "DMLC_PS_ROOT_URI": "10.0.0.5",
        "DMLC_PS_ROOT_PORT": "9091",
        "DMLC_NUM_WORKER": "2",
        "DMLC_NUM_SERVER": "3",
        "MXTRAIN_NODE": "worker-1",
        **plan.MALLOC_ENVIRONMENT,
        "PYTHONUNBUFFERED": "1",
    }


def test_a_local_job_has_every_role_once_on_loopback() -> None:
    cluster = plan.JobSpec(plan.LOOPBACK, 9091, num_workers=2, num_servers=3)
    job = plan.local_processes(cluster, ("fit",), LOGS, token="secret", attempt=4)
    names = ["scheduler", "server-0", "server-1", "server-2", "worker-0", "worker-1"]
    assert [process.name for process in job] == names
    assert len({process.log for process in job}) == len(names)
    for process in job:
        environment = process.environment
        assert environment["MXTRAIN_NODE"] == process.name
        assert environment["DMLC_ROLE"] == process.role == process.name.split("-")[0]
        assert environment["DMLC_PS_ROOT_URI"] == environment["DMLC_NODE_HOST"] == "127.0.0.1"
        assert (environment["MXTRAIN_JOB"], environment["MXTRAIN_GENERATION"]) == ("secret", "4")


def test_a_job_without_servers_starts_none() -> None:
    assert plan.counts(Layout(kvstore="dist_sync", num_workers=2, num_servers=3)) == (2, 3)
    counts = plan.counts(Layout(kvstore="allreduce", num_workers=2))
    assert counts == (2, 0)
    spec = plan.JobSpec(plan.LOOPBACK, 9091, *counts)
    job = plan.local_processes(spec, ("fit",), LOGS, token="secret", attempt=0)
    assert [process.name for process in job] == ["scheduler", "worker-0", "worker-1"]
    assert {process.environment["DMLC_NUM_SERVER"] for process in job} == {"0"}
