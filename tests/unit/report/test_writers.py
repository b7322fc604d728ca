"""metrics.jsonl is complete after every record and cut back on resume."""

from __future__ import annotations

import csv
import io
import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator

import pytest

from mxtrain.config import names
from mxtrain.report import writers


def record(step: int, kind: str = "train", **more: object) -> writers.Record:
    return {"kind": kind, "step": step, "epoch": 1, "loss": 0.5, "lr": 0.1, **more}


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_records_are_there_at_once(tmp_path: Path) -> None:
    with writers.open_sinks("none", tmp_path, 10, 0) as write:
        write(record(1))
        assert lines(tmp_path / "metrics.jsonl") == [record(1)]


def test_the_documented_line_makes_a_table_of_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pandas = pytest.importorskip("pandas")
    with writers.open_sinks("none", tmp_path, 10, 0) as write:
        write(record(1, accuracy=float("nan")))
        write(record(1, kind="eval", val_accuracy=0.5))
    monkeypatch.chdir(tmp_path)
    code = names.WITHOUT_SINK["csv"].format(tmp_path / "metrics.jsonl").partition(" makes")[0]
    eval(code, {"pandas": pandas})
    with Path("metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["kind"], row["step"], row["val_accuracy"]) for row in rows] == [
        ("train", "1", ""),
        ("eval", "1", "0.5"),
    ]


def test_resume_cuts_back(tmp_path: Path) -> None:
    with writers.open_sinks("none", tmp_path, 10, 0) as write:
        for step in (1, 2, 3):
            write(record(step))
            write(record(step, kind="eval"))
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "train", "st')  # killed in the middle of a line
    with writers.open_sinks("none", tmp_path, 10, 2) as write:
        write(record(3))
    steps = [(line["kind"], line["step"]) for line in lines(tmp_path / "metrics.jsonl")]
    assert steps == [("train", 1), ("eval", 1), ("train", 2), ("eval", 2), ("train", 3)]


def test_an_evaluation_that_the_checkpoint_has_no_score_of_is_cut_back(tmp_path: Path) -> None:
    """It will be done again."""
    with writers.open_sinks("none", tmp_path, 10, 0) as write:
        for step in (1, 2):
            write(record(step))
            write(record(step, kind="eval"))
    with writers.open_sinks("none", tmp_path, 10, 2, is_scored=False) as write:
        write(record(2, kind="eval"))
    steps = [(line["kind"], line["step"]) for line in lines(tmp_path / "metrics.jsonl")]
    assert steps == [("train", 1), ("eval", 1), ("train", 2), ("eval", 2)]


def test_damaged_lines_are_dropped(tmp_path: Path) -> None:
    lines_there = [json.dumps(record(1)), "", "\0\0\0", "[]", json.dumps(record(2))]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines_there) + "\n")
    with writers.open_sinks("none", tmp_path, 10, 2) as write:
        write(record(3))
    assert [line["step"] for line in lines(tmp_path / "metrics.jsonl")] == [1, 2, 3]


def test_a_reader_that_goes_does_not_stop_the_run() -> None:
    stream = io.StringIO()
    console = writers.Console(num_steps=3, first_step=0, stream=stream)
    stream.close()
    console.write(record(1))
    console.write(record(3))
    console.close()


def test_numbers_that_are_not_finite_are_null(tmp_path: Path) -> None:
    with writers.open_sinks("none", tmp_path, 10, 0) as write:
        write(record(1, accuracy=float("nan")))
    text = (tmp_path / "metrics.jsonl").read_text()
    assert json.loads(text, parse_constant=lambda name: 1 / 0)["accuracy"] is None


def test_plain_lines_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    console = writers.Console(num_steps=3, first_step=0, stream=stream)
    for step in (1, 2, 3):
        console.write(record(step))
    console.write(record(3, kind="eval", val_accuracy=0.75))
    console.close()
    shown = stream.getvalue().splitlines()
    assert len(shown) == 3, "the first step, the last one, and the evaluation"
    assert "step 1/3" in shown[0] and "step 3/3" in shown[1] and "val_accuracy 0.75" in shown[2]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_on_a_terminal() -> None:
    stream = Terminal()
    console = writers.Console(num_steps=3, first_step=1, stream=stream)
    console.write(record(2))
    console.write(record(3))
    console.close()
    assert "3/3" in stream.getvalue() and "\r" in stream.getvalue()


TENSORBOARD = """
import resource, signal, sys
from pathlib import Path
from mxtrain.core.errors import UsageError
from mxtrain.report import writers
writers.FLUSH_SECONDS = float(sys.argv[3])
sink = writers.TensorBoard(Path(sys.argv[1]), last_step=2)
if int(sys.argv[2]):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # EFBIG, as ENOSPC
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
try:
    for step in range(3, 3000):
        sink.write({"kind": "train", "step": step, "epoch": 1, "loss": 0.5, "applied": True})
except UsageError as error:
    print(error)
sink.close()
"""


def said_with_tensorboard(folder: Path, limit: int, flush_seconds: float) -> str:
    line = [sys.executable, "-c", TENSORBOARD, str(folder), str(limit), str(flush_seconds)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout


@pytest.mark.parametrize("flush_seconds", [0.0, 1000.0])
def test_a_full_disk_does_not_block_the_tensorboard_writer(tmp_path: Path, flush_seconds: float) -> None:
    pytest.importorskip("tensorboardX")
    said = said_with_tensorboard(tmp_path / "logs" / "tensorboard", 20000, flush_seconds)
    assert said.startswith(f"{tmp_path}/logs/tensorboard: cannot be written (File too large); make room")


def test_tensorboard_reads_the_records(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    assert said_with_tensorboard(tmp_path, 0, 1000.0) == ""
    (path,) = tmp_path.glob("events.out.tfevents.*")
    events = [event_of(data) for data in tfrecords(path.read_bytes())]
    assert events[0].file_version == "brain.Event:2"
    assert events[1].step == 3 and events[1].session_log.status == 1, "START hides older steps from 3 on"
    assert [event.step for event in events[2:]] == list(range(3, 3000))
    values = {value.tag: value.simple_value for value in events[-1].summary.value}
    assert values == {"train/loss": 0.5, "train/applied": 1.0}


def tfrecords(content: bytes) -> Iterator[bytes]:
    while content:
        (length,) = struct.unpack("<Q", content[:8])
        yield content[12 : 12 + length]
        content = content[16 + length :]


def event_of(data: bytes) -> Any:
    from tensorboardX.proto.event_pb2 import Event

    return Event.FromString(data)
