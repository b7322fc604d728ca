"""Reading a run folder: whole, while it grows, after a resume, damaged, and of an earlier version."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.core.errors import UsageError
from mxtrain.report import history
from mxtrain.report.sinks.json_lines import JsonLines

RUNS_BEFORE = Path(__file__).resolve().parents[2] / "golden" / "runs_before"


def train(step: int, **numbers: Any) -> dict[str, Any]:
    return {"kind": "train", "step": step, "epoch": 1, "loss": 1.0 / step, **numbers}


def write(folder: Path, *records: Any, end: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records) + end)
    return folder


def test_columns_have_nan_where_a_record_lacks_a_number(tmp_path: Path) -> None:
    sampled = train(3, sampled=True, forward_seconds=0.5)
    found = history.read(write(tmp_path, train(1), train(2, loss=None), sampled, train(4)))
    np.testing.assert_array_equal(found.column("step"), [1, 2, 3, 4])
    np.testing.assert_array_equal(found.column("loss"), [1.0, np.nan, 1 / 3, 0.25])
    np.testing.assert_array_equal(found.column("forward_seconds"), [np.nan, np.nan, 0.5, np.nan])
    np.testing.assert_array_equal(found.column("sampled"), [np.nan, np.nan, 1, np.nan])
    assert np.isnan(found.column("staleness")).all() and len(found.column("staleness")) == 4
    assert set(found.train) == {"step", "epoch", "loss", "sampled", "forward_seconds"}


def test_what_is_no_number_is_nan_in_a_column(tmp_path: Path) -> None:
    found = history.read(write(tmp_path, train(1, odd="words"), train(2, odd=10**400), train(3, odd=7)))
    np.testing.assert_array_equal(found.column("odd"), [np.nan, np.nan, 7])


def test_kinds_are_kept_apart_and_unknown_ones_too(tmp_path: Path) -> None:
    evaluation, other = {"kind": "eval", "step": 1, "val_loss": 2.0}, {"kind": "later", "step": 1}
    found = history.read(write(tmp_path, train(1), evaluation, other))
    assert found.of_kind("eval") == [evaluation] and found.of_kind("later") == [other]
    assert found.of_kind("system") == []


@pytest.mark.parametrize("block_bytes", [1, 100, 1 << 22])
def test_damaged_lines_are_counted_and_an_unfinished_one_is_left_for_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    monkeypatch.setattr(history, "BLOCK_BYTES", block_bytes)
    bad = '{"kind": "tr\n\x00\x00\n[1]\n{"step": 5}\n{"kind": "train", "step": 1}, {"a": 1}\n'
    whole = json.dumps(train(2)) + "\n"
    write(tmp_path, train(1), end=bad + whole + '{"kind": "train", "st')
    found = history.read(tmp_path)
    np.testing.assert_array_equal(found.column("step"), [1, 2])
    assert found.num_damaged == 5
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('ep": 3}\n')
    assert found.read_on()
    np.testing.assert_array_equal(found.column("step"), [1, 2, 3])


def test_a_growing_file_is_read_on_from_where_it_was(tmp_path: Path) -> None:
    sink = JsonLines(tmp_path / "metrics.jsonl", 0, True)
    sink.write(train(1))
    found = history.read(tmp_path)
    assert not found.read_on()
    sink.write(train(2, late=1.5))
    sink.write({"kind": "eval", "step": 2, "val_loss": 1.0})
    assert found.read_on()
    np.testing.assert_array_equal(found.column("step"), [1, 2])
    np.testing.assert_array_equal(found.column("late"), [np.nan, 1.5])
    assert len(found.of_kind("eval")) == 1
    sink.close()


def test_a_resume_that_cuts_records_away_is_noticed(tmp_path: Path) -> None:
    """Also where the new file is longer than the old one was."""
    write(tmp_path, *[train(step, time=step) for step in range(1, 6)])
    found = history.read(tmp_path)
    sink = JsonLines(tmp_path / "metrics.jsonl", 3, True)
    for step in range(4, 20):
        sink.write(train(step, time=100 + step))
    sink.close()
    assert found.read_on()
    np.testing.assert_array_equal(found.column("step"), range(1, 20))
    assert found.column("time")[3] == 104


def test_of_long_records_some_are_kept_evenly_and_the_newest(tmp_path: Path) -> None:
    most = history.MOST_KEPT["layers"]
    num_records = 9 * most + 7
    found = history.read(write(tmp_path, *({"kind": "layers", "step": step} for step in range(num_records))))
    steps = [record["step"] for record in found.of_kind("layers")]
    assert most <= len(steps) <= 2 * most + 1
    assert steps[0] == 0 and steps[-1] == num_records - 1
    assert set(np.diff(steps)[:-1]) == {steps[1]}


@pytest.mark.parametrize("state", ["ended", "killed"])
def test_a_run_of_an_earlier_version_is_read(state: str) -> None:
    found = history.read(RUNS_BEFORE / state / "adam_loss_scale")
    assert found.num_steps and not found.num_damaged
    assert np.isfinite(found.column("loss")).all() and found.of_kind("eval")
    if state == "killed":
        assert found.config["lr"] and found.environment["wheels"]


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no run"):
        history.read(tmp_path)
    with pytest.raises(UsageError, match="is no folder"):
        history.read(tmp_path / "none")
    (tmp_path / "config.yaml").write_text("epochs: 1\n")
    assert history.read(tmp_path).num_steps == 0  # one that has not begun yet


def test_several_processes_read_a_long_file_as_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, *[record for i in range(1, 400) for record in (train(i), {"kind": "eval", "step": i})])
    monkeypatch.setattr(history, "BLOCK_BYTES", 1000)
    by_one = history.read(tmp_path)
    monkeypatch.setattr(history, "LONG_BYTES", 10)
    by_several = history.read(tmp_path)
    assert by_several.of_kind("eval") == by_one.of_kind("eval")
    for name, column in by_one.train.items():
        np.testing.assert_array_equal(by_several.column(name), column)
    assert not by_several.read_on()
