"""Records of what a run takes of its host: read beside it, with what a machine lacks left out, over when the run is."""

from __future__ import annotations

import builtins
import json
import os
import subprocess
import sys
import threading
import time
import types
from typing import Any

import pytest

from mxtrain.cluster.worker_group import SINGLE_WORKER, SingleWorker
from mxtrain.train.telemetry import system_metrics

RATES = {f"{name}_bytes_per_second" for name in ("disk_read", "disk_write", "network_in", "network_out")}
OF_CPU = {"cpu_percent", "process_cpu_percent"}
OF_MEMORY = {"rss_bytes", "memory_free_bytes"}
DEADLINE_SECONDS = 20


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_metrics, "START_SECONDS", 0.1)
    monkeypatch.setattr(system_metrics, "EVERY_SECONDS", 0.1)


def samples(count: int = 1) -> list[dict[str, Any]]:
    """The first ones, while this process computes."""
    found: list[dict[str, Any]] = []
    deadline = time.monotonic() + DEADLINE_SECONDS
    with system_metrics.watching(SINGLE_WORKER) as since:
        while len(found) < count:
            assert time.monotonic() < deadline
            sum(range(10_000))
            found += since()
    return found


def test_a_sample_tells_what_the_run_and_its_loader_workers_take() -> None:
    hundred_mb = "import time; held = bytearray(100 << 20); print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", hundred_mb], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        first, second = samples(2)[:2]
        child.kill()
    alone = samples()[0]
    assert {"time", "host"} | OF_CPU | OF_MEMORY <= second.keys()
    assert second.keys() - RATES - {"gpus"} == {"time", "host"} | OF_CPU | OF_MEMORY
    assert first["rss_bytes"] > alone["rss_bytes"] + (80 << 20)
    of_all = 100 * (os.cpu_count() or 1)
    assert 0 < second["cpu_percent"] <= 100 and 10 < second["process_cpu_percent"] <= of_all
    assert second["time"] > first["time"] and json.dumps(second)


def test_without_psutil_or_a_driver_the_rest_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def lacking(name: str, *rest: Any) -> Any:
        if name in ("psutil", "pynvml"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", lacking)
    assert samples()[0].keys() == {"time", "host"} | OF_MEMORY


def test_a_container_without_diskstats_goes_on_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    import psutil

    def refuse() -> Any:
        raise NotImplementedError("couldn't find disks")

    for without in (refuse, lambda: None):
        monkeypatch.setattr(psutil, "disk_io_counters", without)
        found = samples()[0]
        assert found.keys() >= OF_CPU and not any("disk" in name for name in found)


def test_gpus_are_told_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a library like NVIDIA's: this machine may have no GPU."""
    gpus = types.SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetName=lambda handle: [b"Old", "New"][handle],
        nvmlDeviceGetMemoryInfo=lambda handle: types.SimpleNamespace(used=handle + 1, total=9),
        nvmlDeviceGetUtilizationRates=lambda handle: types.SimpleNamespace(gpu=50),
    )
    monkeypatch.setitem(sys.modules, "pynvml", gpus)
    both = samples()[0]["gpus"]
    assert [each["name"] for each in both] == ["Old", "New"] and [each["index"] for each in both] == [0, 1]
    assert [each["memory_bytes"] for each in both] == [1, 2]
    assert all(each["utilization_percent"] == 50 and each["memory_total_bytes"] == 9 for each in both)


def test_it_is_over_at_once_with_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_metrics, "EVERY_SECONDS", 1000.0)
    before = threading.active_count()
    for seconds in (0.0, 0.2):
        with system_metrics.watching(SINGLE_WORKER):
            time.sleep(seconds)
            started = time.monotonic()
        assert time.monotonic() - started < system_metrics.END_SECONDS
        assert threading.active_count() == before


def test_a_reading_that_hangs_does_not_keep_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a GPU whose driver is sick."""
    released = threading.Event()
    monkeypatch.setattr(system_metrics, "END_SECONDS", 0.1)
    monkeypatch.setattr(system_metrics, "_memory", lambda: released.wait(DEADLINE_SECONDS))
    with system_metrics.watching(SINGLE_WORKER) as since:
        time.sleep(0.3)
        assert since() == []
        started = time.monotonic()
    assert time.monotonic() - started < 2
    released.set()


def test_one_worker_of_a_host_looks_and_all_know() -> None:
    class Worker(SingleWorker):
        def __init__(self, is_first: bool):
            self.is_first_on_host, self.told = is_first, []  # type: ignore[misc]

        def send_note(self, note: dict[str, Any]) -> None:
            self.told.append(note)

        def heard(self) -> list[dict[str, Any]]:
            return [{"host": "another"}]

    before, first, second = threading.active_count(), Worker(True), Worker(False)
    with system_metrics.watching(second) as since:
        assert since() == [{"host": "another"}] and threading.active_count() == before
    with system_metrics.watching(first) as since:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not first.told:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert first.told[0] in since() and second.told == []
