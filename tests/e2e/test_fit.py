"""From packed pictures to a trained net that evaluate and predict can use."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mxtrain.errors import RESTART_ME, SIGINT, SIGTERM
from tests.e2e.conftest import ROOT, Command

FLAGS = [
    *("--model", "small_cnn", "--image-size", "24", "--val-resize", "24", "--augment", "pad_crop:pad=2+flip"),
    *("--batch-size", "16", "--micro-batch", "8", "--devices", "cpu:0,1"),
    *("--optimizer", "adamw", "--lr", "0.01", "--epochs", "4", "--log", "none"),
]


def flags(shapes: Path, out: Path) -> list[str]:
    return ["--train", str(shapes / "train.rec"), "--val", str(shapes / "val.rec"), "--out", str(out), *FLAGS]


def records(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def curve(out: Path) -> list[tuple[Any, ...]]:
    return [(r["kind"], r["step"], r.get("loss"), r.get("lr"), r.get("val_loss")) for r in records(out)]


def newest_weights(out: Path) -> bytes:
    return (sorted((out / "checkpoints").iterdir())[-1] / "weights.params").read_bytes()


@pytest.fixture(scope="module")
def finished(shapes: Path, tmp_path_factory: pytest.TempPathFactory, command: Command) -> Path:
    out = tmp_path_factory.mktemp("finished") / "run"
    done = command("mxtrain.fit", *flags(shapes, out))
    assert done.returncode == 0, done.stderr
    assert "val accuracy" in done.stdout and str(out / "checkpoints") in done.stdout
    return out


def test_the_run_folder(finished: Path) -> None:
    assert {path.name for path in finished.iterdir()} == {
        "config.yaml", "environment.json", "metrics.jsonl", "checkpoints", "logs", ".lock",
    }  # fmt: skip
    environment = json.loads((finished / "environment.json").read_text())
    assert environment["mxtrain"] and "fit" in " ".join(environment["command"]) and "git" in environment


def test_every_step_is_recorded(finished: Path) -> None:
    trained = [record for record in records(finished) if record["kind"] == "train"]
    assert [record["step"] for record in trained] == list(range(1, 17))
    assert all({"step", "epoch", "loss", "lr"} <= record.keys() for record in trained)
    assert [record["epoch"] for record in records(finished) if record["kind"] == "eval"] == [1, 2, 3, 4]


def test_it_learns(finished: Path) -> None:
    evaluations = [record for record in records(finished) if record["kind"] == "eval"]
    assert max(record["val_accuracy"] for record in evaluations) == 1.0


def test_the_saved_config_is_the_run(finished: Path, command: Command, tmp_path: Path) -> None:
    done = command("mxtrain.fit", "--config", finished / "config.yaml", "--out", tmp_path / "again")
    assert done.returncode == 0, done.stderr
    assert curve(tmp_path / "again") == curve(finished)


def test_evaluate(finished: Path, shapes: Path, command: Command) -> None:
    done = command(
        "mxtrain.evaluate", "--run", finished, "--val", shapes / "val.rec", "--checkpoint", "latest", "--json"
    )
    assert done.returncode == 0, done.stderr
    found, last = json.loads(done.stdout), records(finished)[-1]
    assert found["num_samples"] == 16
    assert found["val_loss"] == pytest.approx(last["val_loss"], rel=1e-5)
    assert found["val_accuracy"] == last["val_accuracy"]


def test_predict(finished: Path, shapes: Path, command: Command) -> None:
    images = [shapes / "images" / name / "0.png" for name in ("bright", "dark")]
    done = command("mxtrain.predict", "--run", finished, "--json", "--top", "1", *images)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["classes"][0]["class"] for each in found] == ["bright", "dark"]
    assert [len(each["classes"]) for each in found] == [1, 1]


def test_predict_names_a_bad_picture(finished: Path, command: Command, tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("not a picture")
    done = command("mxtrain.predict", "--run", finished, tmp_path / "text.png")
    assert done.returncode == 3 and "text.png" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, SIGTERM), (signal.SIGINT, SIGINT), (signal.SIGUSR1, RESTART_ME)]
)
def test_a_signal_ends_after_a_checkpoint(
    finished: Path, shapes: Path, tmp_path: Path, command: Command, number: int, code: int
) -> None:
    out = tmp_path / "run"
    line = [sys.executable, "-m", "mxtrain.fit", *flags(shapes, out)]
    process = subprocess.Popen(line, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        wait_for_step(out, 3, process)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == code, said
    assert "Traceback" not in said
    steps = len([record for record in records(out) if record["kind"] == "train"])
    assert sorted((out / "checkpoints").iterdir())[-1].name == f"step-{steps:08d}"
    assert command("mxtrain.fit", *flags(shapes, out)).returncode == 0
    assert curve(out) == curve(finished)
    assert newest_weights(out) == newest_weights(finished)


def test_kill_and_run_again_is_the_same_to_the_bit(
    finished: Path, shapes: Path, tmp_path: Path, command: Command
) -> None:
    out = tmp_path / "run"
    line = [sys.executable, "-m", "mxtrain.fit", *flags(shapes, out), "--checkpoint-steps", "3"]
    process = subprocess.Popen(line, cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        wait_for_step(out, 5, process)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait(timeout=20)
    assert command("mxtrain.fit", *flags(shapes, out)).returncode == 0
    assert curve(out) == curve(finished)
    assert newest_weights(out) == newest_weights(finished)


def wait_for_step(out: Path, step: int, process: subprocess.Popen[Any], deadline_seconds: float = 60) -> None:
    """Until metrics.jsonl has that step."""
    metrics, end = out / "metrics.jsonl", time.monotonic() + deadline_seconds
    while time.monotonic() < end and process.poll() is None:
        if metrics.exists() and f'"step": {step},' in metrics.read_text():
            return
        time.sleep(0.005)
    raise AssertionError(f"step {step} was not reached")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_it_starts(shapes: Path, tmp_path: Path, number: int) -> None:
    """Before the first step there is nothing to save; it ends with the same code and no traceback."""
    line = [sys.executable, "-m", "mxtrain.fit", *flags(shapes, tmp_path / "run"), "--epochs", "1000"]
    process = subprocess.Popen(line, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        time.sleep(0.7)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 128 + number and "Traceback" not in said, said


def test_nobody_listens(finished: Path, shapes: Path, tmp_path: Path) -> None:
    """Closed or broken output streams do not stop a run."""
    for number, streams in enumerate(["2>&-", "2>&1 | head -1", "> /dev/full"]):
        arguments = " ".join(flags(shapes, tmp_path / str(number))[:-2])
        line = f"{sys.executable} -m mxtrain.fit {arguments} --max-steps 4 {streams}"
        subprocess.run(["bash", "-c", line], cwd=ROOT, capture_output=True, timeout=100)
        assert [record["step"] for record in records(tmp_path / str(number))][:4] == [1, 2, 3, 4]
        assert list((tmp_path / str(number) / "checkpoints").glob("step-00000004")), streams


@pytest.mark.system
def test_a_full_disk_is_said_and_left_tidy(shapes: Path, tmp_path: Path, command: Command) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)], check=True, timeout=20)
    try:
        many = ["--keep-last", "99", "--checkpoint-steps", "1"]
        done = command("mxtrain.fit", *flags(shapes, disk / "run"), *many)
        assert done.returncode == 2 and "No space left" in done.stderr and "Traceback" not in done.stderr
        assert not list((disk / "run" / "checkpoints").glob(".writing-*"))
        assert list((disk / "run" / "checkpoints").glob("step-*")), "what was saved before is there"
    finally:
        subprocess.run(["umount", str(disk)], check=True, timeout=20)


def test_one_run_a_folder(shapes: Path, tmp_path: Path, command: Command) -> None:
    out = tmp_path / "run"
    line = [sys.executable, "-m", "mxtrain.fit", *flags(shapes, out), "--epochs", "1000"]
    process = subprocess.Popen(line, cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        wait_for_step(out, 1, process)
        second = command("mxtrain.fit", *flags(shapes, out))
    finally:
        process.kill()
        process.wait(timeout=20)
    assert second.returncode == 2 and "another mxtrain.fit" in second.stderr


def test_never_starts_anew_and_keeps_the_old(
    finished: Path, shapes: Path, tmp_path: Path, command: Command
) -> None:
    out = tmp_path / "run"
    for _ in range(2):
        done = command("mxtrain.fit", *flags(shapes, out), "--resume", "never", "--max-steps", "2")
        assert done.returncode == 0, done.stderr
    assert [record["step"] for record in records(out)] == [1, 2, 2]
    assert curve(out / "previous-1") == curve(out)


def test_a_diverging_run_says_so(shapes: Path, tmp_path: Path, command: Command) -> None:
    wild = ["--optimizer", "sgd", "--lr", "1e30", "--momentum", "0"]
    done = command("mxtrain.fit", *flags(shapes, tmp_path / "run"), *wild)
    assert done.returncode == 4, done.stderr
    assert "--lr" in done.stderr and "Traceback" not in done.stderr


def test_mixed_precision_learns_the_same(
    finished: Path, shapes: Path, tmp_path: Path, command: Command
) -> None:
    out = tmp_path / "run"
    done = command("mxtrain.fit", *flags(shapes, out), "--amp", "bf16")
    assert done.returncode == 0, done.stderr
    assert records(out)[0]["loss"] == pytest.approx(records(finished)[0]["loss"], rel=0.05)
    assert records(out)[0]["loss"] != records(finished)[0]["loss"], "bf16 was on"
    assert max(r["val_accuracy"] for r in records(out) if r["kind"] == "eval") == 1.0


def test_a_net_of_ones_own(shapes: Path, tmp_path: Path, command: Command) -> None:
    own = ["--model", "tests.e2e.own_net:imperative_net"]
    done = command("mxtrain.fit", *flags(shapes, tmp_path / "run"), *own)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("runs imperatively") == 1
    assert max(r["val_accuracy"] for r in records(tmp_path / "run") if r["kind"] == "eval") == 1.0
