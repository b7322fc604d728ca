"""The loader benchmark: its pictures, what its contenders deliver, and that a bar is met only when it is."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from benchmarks.harness import environments, processes
from benchmarks.loader import contend, images, table
from benchmarks.loader.contend import Absent, Cell, Measured, Size
from benchmarks.loader.contenders.reading import Payloads, random_box
from mxtrain.data.decode.decoding import decode
from mxtrain.data.records.record_file import open_records

NUM = 64  # pictures, over whose mean `measure` looks


@pytest.fixture(scope="module")
def packs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return images.make(tmp_path_factory.mktemp("pictures"), NUM)


@pytest.mark.slow  # the reading of one pack is held below
def test_both_packs_hold_the_same_pictures(packs: dict[str, Path]) -> None:
    restart, plain = (open_records(packs[name]) for name in ("restart", "plain"))
    for position in range(0, NUM, 7):
        marked, unmarked = (records.read(position).payload for records in (restart, plain))
        assert b"\xff\xdd\x00\x04" in bytes(marked) and b"\xff\xdd\x00\x04" not in bytes(unmarked)
        assert np.array_equal(decode(marked), decode(unmarked))


@pytest.mark.slow  # it makes both packs
def test_pictures_are_the_size_of_imagenets(packs: dict[str, Path]) -> None:
    sizes = [len(open_records(packs["plain"]).read(position).payload) for position in range(NUM)]
    assert 65_000 < np.mean(sizes) < 85_000


@pytest.mark.slow
def test_the_tiny_reader_reads_what_ours_does(packs: dict[str, Path]) -> None:
    records, payloads = open_records(packs["plain"]), Payloads(str(packs["plain"]))
    assert len(records) == len(payloads)
    for position in range(NUM):
        record = records.read(position)
        assert bytes(record.payload) == payloads[position]
        assert record.label == payloads.labels[position]


def test_the_random_box_covers_what_it_should() -> None:
    rng = np.random.default_rng(0)
    boxes = np.array([random_box(500, 375, rng) for _ in range(500)])
    left, top, wide, high = boxes.T
    assert (left >= 0).all() and (top >= 0).all()
    assert (left + wide <= 500).all() and (top + high <= 375).all()
    share, ratio = wide * high / (500 * 375), wide / high
    assert 0.07 < share.min() < 0.15 and 0.85 < share.max() <= 1
    assert ratio.min() > 0.7 and ratio.max() < 1.4


@pytest.mark.slow
@pytest.mark.parametrize("batch", ["float32", "uint8"])
@pytest.mark.parametrize("name", contend.CONTENDERS)
def test_a_contender_delivers(name: str, batch: str, packs: dict[str, Path]) -> None:
    """`measure` itself holds shape, type and mean against what they have to be."""
    environment = contend.CONTENDERS[name].environment
    if environments.interpreter(environments.FOLDER.resolve(), environment) is None:
        pytest.skip(f"{environment} is not installed: python -m benchmarks.loader --setup")
    cell = Cell("plain", batch, workers=1)
    outcome = contend.measure(name, packs["plain"], cell, Size(NUM, NUM, NUM), environments.FOLDER.resolve())
    assert isinstance(outcome, Measured) and outcome.cpu_milliseconds > 0.1, outcome


@pytest.mark.slow  # tests/unit/data/loading/test_loader.py holds what ours delivers, those below what `measure` tells
def test_ours_delivers_with_either_kind_of_worker(packs: dict[str, Path]) -> None:
    for name, batch in (("mxtrain", "float32"), ("mxtrain_processes", "uint8")):
        cell = Cell("restart", batch, workers=2)
        outcome = contend.measure(
            name, packs["restart"], cell, Size(NUM, NUM, NUM), environments.FOLDER.resolve()
        )
        assert isinstance(outcome, Measured), outcome


def test_what_is_not_installed_says_so(tmp_path: Path) -> None:
    cell = Cell("plain", "float32", workers=1)
    assert contend.measure("dali", tmp_path / "no.rec", cell, Size(NUM, NUM, NUM), tmp_path) == Absent(
        "not installed"
    )


def test_a_contender_that_fails_is_a_row_with_the_reason(tmp_path: Path) -> None:
    cell = Cell("plain", "float32", workers=1)
    outcome = contend.measure("decode", tmp_path / "no.rec", cell, Size(NUM, NUM, NUM), tmp_path)
    assert isinstance(outcome, Absent) and "FileNotFoundError" in outcome.reason


def test_nothing_outlives_its_deadline(tmp_path: Path) -> None:
    line = ("sh", "-c", f"sleep 60 & echo $! > {tmp_path}/child; sleep 60")
    ended = processes.attempt(*line, deadline_seconds=1)
    assert ended.exit_code != 0 and ended.last_error == "not done in 1 s"
    child = Path("/proc") / (tmp_path / "child").read_text().strip() / "cmdline"
    deadline = time.monotonic() + 10
    while child.exists() and child.read_bytes():  # a dead one that nobody has waited for has no command line
        assert time.monotonic() < deadline
        time.sleep(0.01)


def results_with(dali: float, ours: float = 1.0) -> table.Results:
    cell = Cell("restart", "float32", 1)
    return {
        ("mxtrain", cell): [Measured(ours, 100.0)] * 3,
        ("dali", cell): [Measured(dali, 50.0), Measured(dali, 50.0), Measured(9.0, 50.0)],
    }


@pytest.mark.parametrize(("dali", "verdict"), [(1.5, "met"), (1.39, "MISSED")])
def test_a_bar_is_a_ratio_of_medians(dali: float, verdict: str) -> None:
    text, all_met = table.render_bars(results_with(dali))
    line = next(line for line in text.splitlines() if line.startswith("| DALI, CPU, 1 worker"))
    assert line.endswith(f"| {verdict} |") and f"{dali:.2f}" in line
    assert not all_met  # the others were not measured
    assert text.count("MISSED: not measured") == 2


def test_one_failed_round_counts_for_all() -> None:
    outcomes = [Measured(1.0, 2.0), Absent("failed: of a sudden"), Measured(1.0, 2.0)]
    assert table.median(outcomes) == Absent("failed: of a sudden")
