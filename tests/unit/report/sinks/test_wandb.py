"""Contents of Weights & Biases, by its own files, and what one that misbehaves does to the run: nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mxtrain.report.sinks import wandb_process, wandb_sink, writers
from mxtrain.report.sinks.wandb_sink import WandB
from tests.support.jobs.sinks import wandb_files, wandb_records, wandb_rows

ATTEMPT = """
import os, signal, sys
from pathlib import Path
from mxtrain.report.sinks import writers
out, first, last = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
report = writers.Report(writers.Logged(out, 8, sinks=("wandb",), step=first))
for step in range(first + 1, last + 1):
    report.write({"kind": "train", "step": step, "epoch": 1, "loss": 1 / step})
    if step % 4 == 0:
        report.write({"kind": "eval", "step": step, "epoch": 1, "val_loss": 2 / step})
if last < 8:
    print(report._sinks["wandb"]._process.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
report.close(None)
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run folder, on a machine from which nobody has logged in to W&B."""
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    out = tmp_path / "digits"
    (out / "logs").mkdir(parents=True)
    (out / "config.yaml").write_text("task: classification\nmodel: small_cnn\nlr: 0.1\n")
    (out / "metrics.jsonl").touch()
    return out


def wait_for_end(pid: int) -> None:
    end = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists() and Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z":
        assert time.monotonic() < end, f"process {pid} stays"
        time.sleep(0.05)


@pytest.mark.slow  # the other sinks' kills are fast
def test_a_kill_in_the_middle_leaves_one_curve(run: Path) -> None:
    pytest.importorskip("wandb")
    killed = subprocess.run(
        [sys.executable, "-c", ATTEMPT, str(run), "0", "6"], capture_output=True, timeout=60
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    wait_for_end(int(killed.stdout))
    done = subprocess.run(
        [sys.executable, "-c", ATTEMPT, str(run), "4", "8"], capture_output=True, timeout=90
    )
    said = done.stderr.decode()
    assert done.returncode == 0 and said.count("--log wandb: no login is known") == 1, said
    assert len(wandb_files(run)) == 2
    begun = [
        record.run for path in wandb_files(run) for record in wandb_records(path) if record.HasField("run")
    ]
    assert len({each.run_id for each in begun}) == 1
    assert (begun[0].display_name, list(begun[0].tags)) == ("digits", ["classification", "small_cnn"])
    assert {each.key: each.value_json for each in begun[0].config.update}["lr"] == "0.1"
    rows = wandb_rows(run)
    assert [row["_step"] for row in rows] == list(range(len(rows))), "W&B takes none of a number it has seen"
    steps = [row["step"] for row in rows if "train/loss" in row]
    assert steps == [1, 2, 3, 4, 5, 6, 5, 6, 7, 8], "the killed attempt's last steps too"
    assert dict.fromkeys(steps) == dict.fromkeys(range(1, 9))
    assert all(row["train/loss"] == 1 / row["step"] for row in rows if "train/loss" in row)
    assert [(row["step"], row["eval/val_loss"]) for row in rows if "eval/val_loss" in row] == [
        (4, 0.5),
        (8, 0.25),
    ]
    (restart,) = (row for row in rows if "events/restart" in row)
    assert (restart["step"], restart["events/restart"]) == (4, 2) and "attempt 2 goes on" in restart["event"]


def a_wandb_that(does: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a package `wandb` before the real one, for the processes that are started."""
    settings = "class Error(Exception): pass\nclass Settings:\n    def __init__(self, **more): pass\n"
    (folder / "fake" / "wandb").mkdir(parents=True)
    (folder / "fake" / "wandb" / "__init__.py").write_text(settings + does)
    monkeypatch.setenv("PYTHONPATH", str(folder / "fake"))


@pytest.mark.parametrize("num_steps", [1, 3])
def test_a_wandb_that_raises_is_said_once_and_stops_nothing(
    run: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, num_steps: int
) -> None:
    a_wandb_that("def init(**more): raise ValueError('broken')\n", run.parent, monkeypatch)
    with writers.open_sinks(writers.Logged(run, 10, sinks=("wandb",))) as report:
        for step in range(1, num_steps + 1):
            report.write({"kind": "train", "step": step, "epoch": 1, "loss": 0.5})
            if step == 1 and num_steps > 1:
                sink = report._sinks["wandb"]
                assert isinstance(sink, WandB)
                sink._process.wait(60)
    said = [
        entry.getMessage() for entry in caplog.records if "its process has ended, see " in entry.getMessage()
    ]
    assert len(said) == 1 and ("goes on without it" in said[0]) == (num_steps > 1)
    assert "ValueError: broken" in (run / "logs" / "wandb.log").read_text()
    assert (run / "metrics.jsonl").read_text().count('"kind": "train"') == num_steps


@pytest.mark.parametrize("call", ["init", "finish"])
def test_a_wandb_that_hangs_ends_with_the_run(
    run: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, call: str
) -> None:
    does = f"import time\ndef init(**more):\n    if {call == 'init'}: time.sleep(99)\n    return Run()\n"
    does += "class Run:\n    define_metric = log = lambda *words, **more: None\n    def finish(self): time.sleep(99)\n"
    a_wandb_that(does, run.parent, monkeypatch)
    sink = WandB(run, end_seconds=0.1)
    started = time.monotonic()
    sink.close()
    assert time.monotonic() - started < 5 + 10 and sink._process.poll() == 0
    assert "could not send all within 0.1 s" in caplog.records[-1].getMessage()


def test_one_that_does_not_even_end_is_killed(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wandb_sink, "GRACE_SECONDS", 0.1)
    a_wandb_that("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\n", run.parent, monkeypatch)
    sink = WandB(run, end_seconds=0.1)
    while Path(f"/proc/{sink._process.pid}/stat").read_text().split()[2] != "T":
        assert sink._process.poll() is None
        time.sleep(0.01)
    sink.close()
    assert sink._process.poll() == -signal.SIGKILL


def test_signals_and_a_dead_run_end_it(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM to all processes of a machine is the run's to heed. Loader processes may hold the pipe of a dead run."""
    does = "class Run:\n    define_metric = log = finish = lambda *words, **more: None\n"
    does += "def init(**more): return Run()\n"
    a_wandb_that(does, run.parent, monkeypatch)
    code = (
        "import os, sys, time; from pathlib import Path; from mxtrain.report.sinks.wandb_sink import WandB\n"
        "sink = WandB(Path(sys.argv[1]))\n"
        "if os.fork() == 0: time.sleep(30)\n"
        "print(sink._process.pid, flush=True)\n"
        "time.sleep(30)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(run)], stdout=subprocess.PIPE, start_new_session=True
    ) as trainer:
        assert trainer.stdout is not None
        pid = int(trainer.stdout.readline())
        try:
            while not (run / "logs" / "wandb" / "run.json").exists():
                assert Path(f"/proc/{pid}").exists()
                time.sleep(0.01)
            os.kill(pid, signal.SIGTERM)
            trainer.kill()
            wait_for_end(pid)
        finally:
            os.killpg(trainer.pid, signal.SIGKILL)


def test_logins(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not wandb_process.has_login()
    monkeypatch.setenv("WANDB_BASE_URL", "https://wandb.example.org:8080")
    (run.parent / ".netrc").write_text("machine api.wandb.ai login user password no\n")
    assert not wandb_process.has_login()
    (run.parent / ".netrc").write_text("machine wandb.example.org login user password no\n")
    (run.parent / ".netrc").chmod(0o600)
    assert wandb_process.has_login()
    monkeypatch.setenv("NETRC", os.devnull)
    monkeypatch.setenv("WANDB_API_KEY", "x" * 40)
    assert wandb_process.has_login()


def test_without_a_network_it_goes_on_offline(
    run: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    does = "import sys\nclass Run:\n    define_metric = log = finish = lambda *words, **more: None\n"
    does += "def teardown(): pass\ndef init(mode, **more):\n    print(mode, file=sys.stderr)\n"
    does += "    if mode == 'online': raise Error('no answer\\nfrom it')\n    return Run()\n"
    a_wandb_that(does, run.parent, monkeypatch)
    monkeypatch.setenv("WANDB_API_KEY", "x" * 40)
    sink = WandB(run)
    sink.close()
    assert (run / "logs" / "wandb.log").read_text() == "online\noffline\n" and sink._process.poll() == 0
    (said,) = (entry.getMessage() for entry in caplog.records)
    assert said.startswith("--log wandb: no answer from it: offline; `wandb sync ")
