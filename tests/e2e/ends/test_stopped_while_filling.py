"""A signal while `--cache` is filled ends the run at once, and all workers of a cluster with it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import cv2
import numpy as np
import pytest

from mxtrain import config
from mxtrain.core.errors import RESTART_ME, SIGINT, SIGTERM
from mxtrain.data.decode import pixel_cache
from mxtrain.data.records import record_writer
from mxtrain.data.records.record_file import open_records
from mxtrain.data.records.record_writer import RecordWriter, open_alone
from tests.support.breadth import slow_cases
from tests.support.process_tree import roles
from tests.support.runs import wait_until, warm_started

NUM_PICTURES = 4000  # small files that take a ms each to decode
SOON_SECONDS = 10


@pytest.fixture(scope="module")
def slow_to_decode(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("flat") / "flat.rec"
    payload = cv2.imencode(".png", np.zeros((240, 320, 3), np.uint8))[1].tobytes()
    with RecordWriter(path) as writer:
        for key in range(NUM_PICTURES):
            writer.write(key, float(key % 2), payload)
    return path


def flags(rec: Path, out: Path, *more: str) -> list[object]:
    return ["--train", rec, "--val", rec, "--model", "small_cnn", "--out", out, *more]


def log(out: Path) -> str:
    path = out / "logs" / "fit.log"
    return path.read_text() if path.exists() else ""


def assert_nothing_came_of_it(out: Path) -> None:
    assert log(out).count("pictures into the cache") == 1, "that of --val was never begun"
    assert not (out / "metrics.jsonl").exists() and not list(out.glob("cache/*"))


@pytest.mark.parametrize(
    ("kind", "number", "code"),
    [
        ("ram", signal.SIGTERM, SIGTERM),
        *slow_cases(("disk", signal.SIGINT, SIGINT), ("disk", signal.SIGUSR1, RESTART_ME)),
    ],
)
def test_alone(slow_to_decode: Path, tmp_path: Path, kind: str, number: int, code: int) -> None:
    with warm_started(*flags(slow_to_decode, tmp_path, "--cache", kind)) as run:
        wait_until(lambda: "pictures into the cache" in log(tmp_path), run)
        run.send_signal(number)
        _, said = run.communicate(timeout=60)
    assert run.returncode == code, said
    assert said.splitlines()[-1].startswith("mxtrain.fit: stopped by ")
    assert_nothing_came_of_it(tmp_path)


def test_while_another_process_fills_it(slow_to_decode: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    fingerprint = pixel_cache.fingerprint_of(open_records(slow_to_decode))
    aside = record_writer.aside(
        pixel_cache.pixels_path(tmp_path / "cache", fingerprint, config.parse([]).data.image_size)
    )
    with open_alone(aside), warm_started(*flags(slow_to_decode, tmp_path, "--cache", "disk")) as run:
        wait_until(lambda: "waiting for another process" in log(tmp_path), run)
        run.send_signal(signal.SIGTERM)
        _, said = run.communicate(timeout=60)
    assert run.returncode == SIGTERM, said
    assert aside.exists(), "it is the other's"


@pytest.mark.timeout(120)
def test_one_of_two_workers_ends_both(slow_to_decode: Path, tmp_path: Path) -> None:
    cluster = ("--kvstore", "dist_sync", "--num-workers", "2", "--start-timeout", "40", "--cache", "ram")
    with warm_started(*flags(slow_to_decode, tmp_path, *cluster)) as run:
        wait_until(lambda: "pictures into the cache" in log(tmp_path), run)
        processes = roles(run.pid)
        os.kill(processes["worker-1"], signal.SIGTERM)
        asked = time.monotonic()
        _, said = run.communicate(timeout=60)
    assert time.monotonic() - asked < SOON_SECONDS
    assert run.returncode == SIGTERM, said
    for node in processes:
        end = (tmp_path / "logs" / f"{node}.log").read_text().splitlines()[-1]
        assert end.startswith("mxtrain.fit: worker-1: stopped by SIGTERM"), end
    assert not any(Path(f"/proc/{pid}").exists() for pid in processes.values())
    assert_nothing_came_of_it(tmp_path)
