"""Advice of doctor --comm on measured numbers, and the setup of its jobs."""

from __future__ import annotations

import copy
import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from mxtrain.doctor.cluster import store_advice, sum_jobs
from mxtrain.doctor.machine import fact_table
from tests.support.process_tree import children

MEASURED: dict[str, Any] = {
    "workers": 2,
    "megabytes": 50.0,
    "sockets": {"tcp": 2.4, "unix": 3.6},
    "jobs": [
        {
            "servers": 1,
            "unix_sockets": True,
            "milliseconds": {"1": 120.0, "4": 96.0, "16": 95.0},
            "error": None,
        },
        {
            "servers": 1,
            "unix_sockets": False,
            "milliseconds": {"1": 130.0, "4": 101.0, "16": 100.0},
            "error": None,
        },
        {
            "servers": 2,
            "unix_sockets": True,
            "milliseconds": {"1": 140.0, "4": 98.0, "16": 99.0},
            "error": None,
        },
        {
            "servers": 0,
            "unix_sockets": True,
            "milliseconds": {"1": 60.0, "4": 40.0, "16": 45.0},
            "error": None,
        },
    ],
}


def advised(**changes: Any) -> str:
    """The advice, with the milliseconds or the error of jobs 0 to 3 replaced: job_2={"error": ...}."""
    measured = copy.deepcopy(MEASURED)
    for name, change in changes.items():
        measured["jobs"][int(name[-1])].update(change)
    return "\n".join(store_advice.advise(measured))


def test_a_difference_within_chance_changes_no_setting() -> None:
    text = advised()
    assert "--num-servers 1: 95 ms with 1, 98 ms with 2" in text
    assert "buckets of 4 MB, the default, are right: 120 ms at 1 MB, 96 ms at 4 MB" in text
    assert "unix sockets: 95 ms over unix sockets, 100 ms over TCP" in text


def test_a_store_is_advised_where_its_sums_are_faster_beyond_chance() -> None:
    assert "--kvstore allreduce for jobs on this machine: 40 ms, 95 ms over dist_sync" in advised()
    alike, slower = ({"milliseconds": {"4": ms}} for ms in (90.0, 150.0))
    assert "as fast as each other: 90 ms, 95 ms over dist_sync" in advised(job_3=alike)
    assert "--kvstore dist_sync for jobs on this machine" in advised(job_3=slower)
    failed = advised(job_3={"error": "no memory", "milliseconds": {}})
    assert "allreduce, shared memory: no memory" in failed
    assert "--kvstore" not in failed and "--num-servers 1" in failed


def test_a_faster_setting_is_advised_with_its_numbers() -> None:
    assert "--num-servers 2: 95 ms with 1, 60 ms with 2" in advised(job_2={"milliseconds": {"4": 60.0}})
    slow = {"1": 300.0, "4": 200.0, "16": 100.0}
    assert "buckets of 16 MB would be 2.0 times as fast" in advised(job_0={"milliseconds": slow})


def test_tcp_is_advised_only_where_it_is_faster() -> None:
    slower, faster = ({"milliseconds": {"4": ms}} for ms in (150.0, 50.0))
    assert "DMLC_LOCAL=0, which is TCP" in advised(job_0=slower)
    assert "150 ms over unix sockets, 100 ms over TCP" in advised(job_0=slower)
    assert "leave DMLC_LOCAL unset" in advised(job_0=faster)


def test_a_failed_job_is_reported_and_the_rest_still_advised() -> None:
    text = advised(job_2={"error": "server-0 ended with exit code 1: no memory", "milliseconds": {}})
    assert "2 servers, unix sockets: server-0 ended with exit code 1: no memory" in text
    assert "--num-servers 1" in text


def test_without_the_default_job_nothing_is_advised() -> None:
    assert advised(job_0={"error": "broken", "milliseconds": {}}) == "1 server, unix sockets: broken"


def test_the_table_fits_its_width() -> None:
    measured = {**MEASURED, "recommendations": store_advice.advise(MEASURED)}
    assert (
        max(map(len, fact_table.align(store_advice.rows(measured)).splitlines())) <= fact_table.TABLE_COLUMNS
    )


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_UNIX])
def test_a_socket_has_a_rate(family: int) -> None:
    assert 0.01 < sum_jobs.socket_rate(family) < 1000


def test_the_environment_of_another_cluster_is_not_inherited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PORT", "DMLC_INTERFACE", "DMLC_LOCAL", "PS_VERBOSE", "MXTRAIN_GENERATION"):
        monkeypatch.setenv(name, "7")
    over_tcp, over_unix = (
        sum_jobs.environment(sum_jobs.processes(1, unix, tmp_path, 9)[0]) for unix in (False, True)
    )
    assert not {"PORT", "DMLC_INTERFACE", "PS_VERBOSE"} & set(over_tcp)
    assert over_tcp["DMLC_LOCAL"] == "0"
    assert over_tcp["MXTRAIN_GENERATION"] == "0"
    assert over_unix["DMLC_LOCAL"] == "1"


def test_a_job_without_servers_has_none_and_names_its_store(tmp_path: Path) -> None:
    scheduler, *workers = sum_jobs.processes(0, True, tmp_path, 9)
    assert [each.role for each in (scheduler, *workers)] == ["scheduler", "worker", "worker"]
    for each in (scheduler, *workers):
        flags = list(each.argv)
        assert flags[flags.index("--kvstore") + 1] == "allreduce"
        assert "--num-servers" not in flags


def test_a_job_is_not_started_without_time() -> None:
    found = sum_jobs.job(1, False, time.monotonic())
    assert "no time was left" in found["error"]
    assert found["milliseconds"] == {}


def test_a_job_whose_time_is_over_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sum_jobs, "MIN_SECONDS", 0.8)  # its processes are there, and load mxnet
    started = time.monotonic()
    found = sum_jobs.job(1, False, started + sum_jobs.MIN_SECONDS + 0.1)
    assert time.monotonic() - started < 30
    assert found["error"] is not None
    assert children(os.getpid()) == []
