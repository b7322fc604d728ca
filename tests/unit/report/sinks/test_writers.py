"""metrics.jsonl is complete after every record and cut back on resume."""

from __future__ import annotations

import csv
import io
import json
import math
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mxtrain.core.errors import DataError
from mxtrain.report.sinks import writers
from mxtrain.report.sinks.console import Console
from mxtrain.report.sinks.record import Record
from mxtrain.report.sinks.sink import Shown


def logged(out: Path, **more: Any) -> writers.Logged:
    return writers.Logged(out, num_steps=10, **more)


def record(step: int, kind: str = "train", **more: object) -> Record:
    return {"kind": kind, "step": step, "epoch": 1, "loss": 0.5, "lr": 0.1, **more}


def lines(path: Path) -> list[dict[str, Any]]:
    """The records in a file, without events, and without what a clock says."""
    found = [json.loads(line) for line in path.read_text().splitlines()]
    for each in found:
        assert each.pop("time", 1) > 0
    return [each for each in found if each["kind"] != "event"]


def text_of(out: Path) -> list[str]:
    return (out / "metrics.jsonl").read_text().splitlines()


def events(out: Path) -> list[tuple[str, int]]:
    found = [json.loads(line) for line in text_of(out)]
    return [(each["event"], each["step"]) for each in found if each["kind"] == "event"]


def test_records_are_there_at_once(tmp_path: Path) -> None:
    with writers.open_sinks(logged(tmp_path)) as report:
        before = time.time()
        report.write({**record(1), "gradients": {"dense0.weight": math.nan, "dense0.bias": [1.5, math.inf]}})
        (found,) = [each for each in map(json.loads, text_of(tmp_path)) if each["kind"] == "train"]
        assert before <= found.pop("time") <= time.time()
        assert found.pop("gradients") == {"dense0.weight": None, "dense0.bias": [1.5, None]}
        assert found == record(1)


def test_resume_cuts_back(tmp_path: Path) -> None:
    with writers.open_sinks(logged(tmp_path)) as report:
        for step in (1, 2, 3):
            report.write(record(step))
            report.write(record(step, kind="eval"))
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "train", "st')  # killed in the middle of a line
    with writers.open_sinks(logged(tmp_path, step=2)) as report:
        report.write(record(3))
    steps = [(line["kind"], line["step"]) for line in lines(tmp_path / "metrics.jsonl")]
    assert steps == [("train", 1), ("eval", 1), ("train", 2), ("eval", 2), ("train", 3)]


def test_an_evaluation_that_the_checkpoint_has_no_score_of_is_cut_back(tmp_path: Path) -> None:
    """It will be done again."""
    with writers.open_sinks(logged(tmp_path)) as report:
        for step in (1, 2):
            report.write(record(step))
            report.write(record(step, kind="eval"))
    with writers.open_sinks(logged(tmp_path, step=2, is_scored=False)) as report:
        report.write(record(2, kind="eval"))
    steps = [(line["kind"], line["step"]) for line in lines(tmp_path / "metrics.jsonl")]
    assert steps == [("train", 1), ("eval", 1), ("train", 2), ("eval", 2)]


def test_damaged_lines_are_dropped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lines_there = [json.dumps(record(1)), "", "\0\0\0", "[]", json.dumps(record(2))]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines_there) + "\n")
    with writers.open_sinks(logged(tmp_path, step=2)) as report:
        report.write(record(3))
    assert [line["step"] for line in lines(tmp_path / "metrics.jsonl")] == [1, 2, 3]
    assert "metrics.jsonl: 3 lines are no records, dropped" in caplog.records[0].getMessage()


def test_a_reader_that_goes_does_not_stop_the_run() -> None:
    stream = io.StringIO()
    console = Console(num_steps=3, first_step=0, stream=stream)
    stream.close()
    console.write(record(1))
    console.write(record(3))
    console.close()


def test_numbers_that_are_not_finite_are_null(tmp_path: Path) -> None:
    with writers.open_sinks(logged(tmp_path)) as report:
        report.write(record(1, accuracy=float("nan")))
    found = text_of(tmp_path)
    _, read, _ = (json.loads(line, parse_constant=lambda name: 1 / 0) for line in found)
    assert read["accuracy"] is None


def test_plain_lines_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    console = Console(num_steps=3, first_step=0, stream=stream)
    for step in (1, 2, 3):
        console.write(record(step))
    console.write(record(3, kind="eval", val_accuracy=0.75))
    console.close()
    shown = stream.getvalue().splitlines()
    assert len(shown) == 3, "the first step, the last one, and the evaluation"
    assert "step 1/3" in shown[0] and "step 3/3" in shown[1] and "val_accuracy 0.75" in shown[2]


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        ("accuracy", "epoch 1: val_loss 0.5, val_accuracy 0.75, val_auc 0.9"),
        ("auc", "epoch 1: val_loss 0.5, val_auc 0.9"),
        ("loss", "epoch 1: val_loss 0.5, val_accuracy 0.75, val_ece 0.1, val_auc 0.9"),
    ],
)
def test_an_evaluation_shows_the_score_and_what_metric_adds(score: str, expected: str) -> None:
    stream = io.StringIO()
    shown = Shown(score=score, others=frozenset(("accuracy", "ece")))
    console = Console(num_steps=3, first_step=0, stream=stream, shown=shown)
    console.write(record(3, kind="eval", val_loss=0.5, val_accuracy=0.75, val_ece=0.1, val_auc=0.9))
    assert stream.getvalue().splitlines() == [expected]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_live_line_on_a_terminal() -> None:
    stream = Terminal()
    console = Console(num_steps=3, first_step=1, stream=stream)
    console.write(record(2))
    console.write(record(3))
    console.close()
    assert "3/3" in stream.getvalue() and "\r" in stream.getvalue()


def write_attempt(out: Path, first: int, last: int, *sinks: str, **more: Any) -> None:
    """Train from `first` to `last`, to be killed there: what is written is there, and nothing is closed."""
    report = writers.Report(logged(out, step=first, sinks=sinks, **more))
    for step in range(first + 1, last + 1):
        report.write(record(step, seconds=0.5))
        if step % 2 == 0:
            report.write(record(step, kind="eval", val_loss=1.0, seconds=1.0))
            report.event("checkpoint", "saved", step, 1, seconds=0.25)


def test_two_kills_from_one_checkpoint_are_two_restarts(tmp_path: Path) -> None:
    for first, last in ((0, 7), (4, 5), (4, 8)):
        write_attempt(tmp_path, first, last)
    found = lines(tmp_path / "metrics.jsonl")
    assert [each["step"] for each in found if each["kind"] == "train"] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert events(tmp_path) == [
        *(("start", 0), ("checkpoint", 2), ("checkpoint", 4), ("restart", 4), ("restart", 4)),
        *(("checkpoint", 6), ("checkpoint", 8)),
    ]
    text = text_of(tmp_path)
    start, *restarts = (each for each in map(json.loads, text) if "attempt" in each)
    assert start["attempt"] == 1 and "mxtrain" in start["versions"] and "lost_steps" not in start
    told = [(each["attempt"], each["lost_steps"], each["lost_seconds"]) for each in restarts]
    assert told == [(2, 3, 3 * 0.5 + 1.0 + 0.25), (3, 1, 0.5)]


def test_a_job_that_was_restarted_before_its_first_record_counts_that(tmp_path: Path) -> None:
    write_attempt(tmp_path, 0, 2, job_restarts=2)
    assert '"attempt": 3' in text_of(tmp_path)[0]


def test_a_run_of_an_earlier_version_goes_on_with_events(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(record(step)) + "\n" for step in (1, 2, 3)))
    write_attempt(tmp_path, 2, 3)
    assert events(tmp_path) == [("restart", 2)]
    assert [each["step"] for each in lines(tmp_path / "metrics.jsonl")] == [1, 2, 3]


def test_the_end_of_a_run_is_an_event(tmp_path: Path) -> None:
    with writers.open_sinks(logged(tmp_path / "nothing to do")):
        pass
    assert not (tmp_path / "nothing to do").exists()
    with writers.open_sinks(logged(tmp_path)) as report:
        report.write(record(10))
    with pytest.raises(DataError), writers.open_sinks(logged(tmp_path, step=10)) as report:
        report.event("checkpoint", "of a run that has not begun", 10, 1)
        report.write(record(10, kind="eval"))
        raise DataError("a.rec: record 7 is damaged")
    ends = [json.loads(line) for line in text_of(tmp_path)]
    told = [(each["event"], each["step"], each.get("reason")) for each in ends if each["kind"] == "event"]
    assert told == [
        *(("start", 0, None), ("end", 10, None)),
        *(("restart", 10, None), ("stop", 10, "a.rec: record 7 is damaged")),
    ]


def table(out: Path) -> list[dict[str, str]]:
    with (out / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_table_of_steps_and_evaluations(tmp_path: Path) -> None:
    """Numbers that come later are columns to the right; a resume cuts the table back as it does metrics.jsonl."""
    pandas = pytest.importorskip("pandas")
    for first, last in ((0, 5), (2, 3)):
        write_attempt(tmp_path, first, last, "csv")
    rows = table(tmp_path)
    told = [(row["kind"], row["step"], row["loss"], row["val_loss"]) for row in rows]
    assert told == [
        *(("train", "1", "0.5", ""), ("train", "2", "0.5", "")),
        *(("eval", "2", "0.5", "1.0"), ("train", "3", "0.5", "")),
    ]
    assert all(None not in row and None not in row.values() for row in rows), "as many cells as columns"
    frame = pandas.read_csv(tmp_path / "metrics.csv")
    assert frame[frame.kind == "train"].step.tolist() == [1, 2, 3]


def test_no_number_that_is_not_finite_is_in_the_table(tmp_path: Path) -> None:
    with writers.open_sinks(logged(tmp_path, sinks=("csv",))) as report:
        report.write(record(1, accuracy=float("nan"), gradient_norm=float("inf"), applied=True, host="a,b"))
    (row,) = table(tmp_path)
    assert (row["accuracy"], row["gradient_norm"], row["applied"]) == ("", "", "True") and "host" not in row


def test_a_sink_that_fails_says_so_once_and_the_run_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "metrics.csv").mkdir()
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "tensorboard").write_text("in the way")
    with writers.open_sinks(
        logged(
            tmp_path,
            sinks=(
                "csv",
                "tensorboard",
            ),
        )
    ) as report:
        for step in range(1, 6):
            report.write(record(step))
    assert len(lines(tmp_path / "metrics.jsonl")) == 5
    said = sorted(entry.getMessage() for entry in caplog.records)
    assert [text.partition(":")[0] for text in said] == ["--log csv", "--log tensorboard"]
    assert "metrics.csv: Is a directory; the run goes on without it" in said[0]


def test_a_disk_that_becomes_full_gives_up_the_table_alone(tmp_path: Path) -> None:
    """Of metrics.jsonl it ends the run."""
    code = (
        "import resource, signal, sys; from pathlib import Path; from mxtrain.report.sinks import writers\n"
        "out = Path(sys.argv[1])\n"
        "with writers.open_sinks(writers.Logged(out, 10, sinks=('csv',))) as report:\n"
        "    report.write({'kind': 'train', 'step': 1, 'epoch': 1, 'loss': 0.5})\n"
        "    report._sinks['csv']._file = open('/dev/full', 'w', buffering=1)\n"
        "    for step in range(2, 5):\n"
        "        report.write({'kind': 'train', 'step': step, 'epoch': 1, 'loss': 0.5})\n"
        "    report._lines.file = open('/dev/full', 'w', buffering=1)\n"
        "    report.write({'kind': 'train', 'step': 5, 'epoch': 1, 'loss': 0.5})\n"
    )
    line = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert done.stderr.count("--log csv: No space left on device; the run goes on without it") == 1
    assert [each["step"] for each in lines(tmp_path / "metrics.jsonl")] == [1, 2, 3, 4]
    assert done.returncode == 1 and "metrics.jsonl: cannot be written" in done.stderr.splitlines()[-1]
