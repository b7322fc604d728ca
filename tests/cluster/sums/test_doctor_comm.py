"""doctor --comm starts real clusters, and prints why if it cannot."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mxtrain.doctor.cluster import store_advice, sum_jobs
from mxtrain.doctor.machine import fact_table
from tests.support.commands import ROOT

ONE_KIND = """
from mxtrain.doctor import __main__ as doctor
from mxtrain.doctor.cluster import sum_jobs as jobs
jobs.CLUSTERS = jobs.CLUSTERS[:1]
raise SystemExit(doctor.main(["--comm"]))
"""


@pytest.fixture(autouse=True)
def _in_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.slow  # tests/engine/doctor/test_doctor_run.py measures the same jobs; the one below a job that fails
def test_a_job_over_unix_sockets_has_a_time_for_each_size_of_bucket() -> None:
    before = set(os.listdir("/tmp"))
    found = sum_jobs.job(1, unix=True, deadline=time.monotonic() + 100)
    assert found["error"] is None
    assert list(found["milliseconds"]) == ["1", "4", "16"]
    assert all(0.1 < ms < 60_000 for ms in found["milliseconds"].values())
    made = {Path("/tmp", name) for name in set(os.listdir("/tmp")) - before if name.isdigit()}
    assert not {path for path in made if _is_left_behind(path)}
    same_over_tcp = {**found, "unix_sockets": False}
    measured = {"megabytes": sum_jobs.MEGABYTES, "sockets": {"tcp": 1.0}, "jobs": [same_over_tcp, found]}
    assert any("leave DMLC_LOCAL unset" in sentence for sentence in store_advice.advise(measured))


@pytest.mark.slow  # as above
def test_a_job_without_servers_has_a_time_for_each_size_of_bucket() -> None:
    found = sum_jobs.job(0, unix=True, deadline=time.monotonic() + 100)
    assert found["error"] is None
    assert list(found["milliseconds"]) == ["1", "4", "16"]
    assert all(0.1 < ms < 60_000 for ms in found["milliseconds"].values())


def _is_left_behind(path: Path) -> bool:
    """Return whether nobody answers at a socket; another job's may be there, or go at any time."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return path.exists()
        except FileNotFoundError:
            pass
    return False


@pytest.mark.slow  # a wait
def test_if_no_cluster_starts_the_reason_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "mxnet").mkdir()
    (tmp_path / "mxnet" / "__init__.py").write_text("raise ImportError('half installed')")
    done = subprocess.run(
        [sys.executable, "-c", ONE_KIND],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 2, done.stdout
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("mxtrain.doctor: no cluster of two workers came up: ")
    assert "half installed" in done.stderr
    assert max(map(len, done.stdout.splitlines())) <= fact_table.TABLE_COLUMNS
