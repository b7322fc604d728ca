"""However often a run is stopped or killed, and wherever, the same command brings it to the same end."""

from __future__ import annotations

import contextlib
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable

import pytest

from mxtrain.core.errors import DATA, RESTART_ME, SIGINT, SIGTERM
from tests.support import runs
from tests.support.amp import BF16, MIXED, needs_bf16
from tests.support.commands import ROOT, Command
from tests.support.data import damaged_data
from tests.support.runs import assert_same_end, has_step, is_writing, started, wait_until, warm_started

NUM_STEPS = 40
# Eleven steps an epoch, the last one short; the end is in the middle of one.
COMMON = [
    *("--model", "small_cnn", "--image-size", "40", "--val-resize", "40", "--augment", "resized_crop+flip"),
    *("--batch-size", "6", "--micro-batch", "3", "--epochs", "8", "--max-steps", str(NUM_STEPS)),
    *("--keep-last", "3", "--log", "none"),
]
RICH = [
    *("--mixup", "0.4", "--amp", MIXED, "--ema", "0.9"),
    *("--optimizer", "adamw", "--lr", "0.005"),
    *("--clip-norm", "1", "--devices", "cpu:0,1"),
]


def flags(shapes: Path, out: Path, *more: str) -> list[str]:
    return [
        "--train",
        str(shapes / "train.rec"),
        "--val",
        str(shapes / "val.rec"),
        "--out",
        str(out),
        *COMMON,
        *more,
    ]


@pytest.fixture(scope="module")
def straight(shapes: Path, tmp_path_factory: pytest.TempPathFactory, command: Command) -> Path:
    """The rich run in one go, saved at the ends of epochs only."""
    out = tmp_path_factory.mktemp("straight") / "run"
    done = command("mxtrain.fit", *flags(shapes, out, *RICH))
    assert done.returncode == 0, done.stderr
    assert [each["step"] for each in runs.records(out) if each["kind"] == "train"] == list(
        range(1, NUM_STEPS + 1)
    )
    return out


def kill_again_and_again(
    out: Path,
    line: list[str],
    seed: int,
    num_kills: int,
    steps: range = range(2, NUM_STEPS - 6),
    start: Callable[..., Any] = warm_started,
) -> None:
    """SIGKILL at random times, every other one inside the write of a checkpoint."""
    rng = random.Random(seed)
    for number, step in enumerate(sorted(rng.sample(steps, num_kills))):
        with start(*line) as run:
            wait_until(lambda step=step: has_step(out, step), run)  # type: ignore[misc]
            if number % 2:
                wait_until(lambda: is_writing(out), run)
            else:
                time.sleep(rng.uniform(0, 0.03))
            run.send_signal(signal.SIGKILL)
            run.wait(timeout=20)
            assert run.returncode == -signal.SIGKILL


@pytest.mark.timeout(300)
@pytest.mark.parametrize("num_kills", [2, pytest.param(5, marks=pytest.mark.slow)])
def test_killed_again_and_again(
    straight: Path, shapes: Path, tmp_path: Path, command: Command, num_kills: int
) -> None:
    out = tmp_path / "run"
    line = flags(shapes, out, *RICH, "--checkpoint-steps", "2")
    kill_again_and_again(out, line, seed=0, num_kills=num_kills)
    with (out / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "train", "step": 4')  # as a power cut leaves it
    done = command("mxtrain.fit", *line)
    assert done.returncode == 0, done.stderr
    assert_same_end(out, straight)


def rewritten(path: Path) -> Callable[[], bool]:
    """Return whether the next process has come to write this file."""

    def stamp() -> int:
        return path.stat().st_mtime_ns if path.exists() else 0

    before = stamp()
    return lambda: stamp() != before


@pytest.mark.slow  # test_killed_again_and_again kills in every phase
@pytest.mark.timeout(300)
def test_stopped_in_every_phase(straight: Path, shapes: Path, tmp_path: Path, command: Command) -> None:
    """Each time it says so, has saved the step it was at, and the next one resumes it."""
    out = tmp_path / "run"
    line = flags(shapes, out, *RICH)

    def stop(
        reached: Callable[[], bool],
        number: int,
        code: int,
        *more: str,
        start: Callable[..., Any] = warm_started,
    ) -> dict[str, Any]:
        with start(*line, *more) as run:
            wait_until(reached, run)
            run.send_signal(number)
            said = run.communicate(timeout=runs.DEADLINE_SECONDS)[1]
        assert run.returncode == code, said
        assert "stopped by" in said.splitlines()[-1] and "Traceback" not in said
        assert not is_writing(out)
        last = [{"step": 0}, *runs.records(out)][-1]
        assert last["step"] == 0 or runs.newest(out).name == f"step-{last['step']:08d}"
        return last

    for number in range(40):
        (tmp_path / f"long-{number}.rec").symlink_to(shapes / "train.rec")
    long_evaluation = ("--val", str(tmp_path / "long-*.rec"))

    stop(rewritten(out / "logs" / "fit.log"), signal.SIGTERM, SIGTERM, start=started)
    assert stop(rewritten(out / "metrics.jsonl"), signal.SIGINT, SIGINT)["step"] < 6, "at the first step"
    end_of_epoch = out / "checkpoints" / "step-00000011"
    last = stop(end_of_epoch.exists, signal.SIGINT, SIGINT, *long_evaluation)
    assert (last["kind"], last["step"]) == ("train", 11), "the evaluation was cut short"
    stop(lambda: has_step(out, 14) and is_writing(out), signal.SIGTERM, SIGTERM, "--checkpoint-steps", "1")
    stop(lambda: has_step(out, 34), signal.SIGUSR1, RESTART_ME)
    end = out / "checkpoints" / f"step-{NUM_STEPS:08d}"
    last = stop(end.exists, signal.SIGTERM, SIGTERM, *long_evaluation)
    assert (last["kind"], last["step"]) == ("train", NUM_STEPS), "the last evaluation was cut short"
    done = command("mxtrain.fit", *line)
    assert done.returncode == 0, done.stderr
    assert_same_end(out, straight)


@pytest.mark.alone
def test_a_second_signal_leaves_at_once(shapes: Path, tmp_path: Path) -> None:
    """In the middle of what the first one has begun, here an evaluation's last batch or a write, without harm."""
    out = tmp_path / "run"
    with started(
        *flags(shapes, out, *RICH, "--checkpoint-steps", "1", "--val-resize", "9000", "--loader-workers", "1")
    ) as run:
        wait_until(lambda: (out / "checkpoints" / "step-00000011").exists(), run)
        time.sleep(0.1)
        run.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        assert run.poll() is None, "it was in the middle of something"
        sent = time.monotonic()
        run.send_signal(signal.SIGINT)
        said = run.communicate(timeout=20)[1]
    assert time.monotonic() - sent < 1 and run.returncode == SIGINT
    assert "at once" in said and "Traceback" not in said
    assert runs.newest(out).name == "step-00000011"


def copy_of(run: Path, tmp_path: Path) -> Path:
    shutil.copytree(str(run), str(tmp_path / "run"))
    return tmp_path / "run"


def test_a_damaged_checkpoint_is_named_and_the_one_before_used(
    straight: Path, shapes: Path, tmp_path: Path, command: Command
) -> None:
    out = copy_of(straight, tmp_path)
    newest, before, _ = sorted((out / "checkpoints").glob("step-*"), reverse=True)[:3]
    weights = newest / "weights.params"
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 1
    weights.write_bytes(content)
    (before / "grid.params").unlink()
    done = command("mxtrain.fit", *flags(shapes, out, *RICH))
    assert done.returncode == 0, done.stderr
    assert f"{weights}: damaged" in done.stderr
    assert f"{before}: not a whole checkpoint (grid.params: No such file" in done.stderr
    assert "resuming from" in done.stderr and "step-00000022" in done.stderr
    assert_same_end(out, straight)
    assert {path.name for path in (out / "checkpoints").glob("unused-*")} == {
        "unused-step-00000033",
        "unused-step-00000040",
    }


def test_going_on_from_a_path(straight: Path, shapes: Path, tmp_path: Path, command: Command) -> None:
    """In another folder, whose metrics begin where the checkpoint ends."""
    out = tmp_path / "run"
    start = straight / "checkpoints" / "step-00000033"
    done = command("mxtrain.fit", *flags(shapes, out, *RICH, "--resume", str(start)))
    assert done.returncode == 0, done.stderr
    assert runs.curve(out) == [each for each in runs.curve(straight) if each["step"] > 33]
    for path in runs.newest(straight).glob("*.params"):
        assert (runs.newest(out) / path.name).read_bytes() == path.read_bytes(), path.name


def test_a_bad_validation_record_does_not_lose_the_epoch(
    shapes: Path, tmp_path: Path, command: Command
) -> None:
    content = bytearray((shapes / "val.rec").read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "bad.rec").write_bytes(content)
    out = tmp_path / "run"
    done = command("mxtrain.fit", *flags(shapes, out), "--val", tmp_path / "bad.rec")
    assert done.returncode == DATA and "bad.rec" in done.stderr.splitlines()[-1]
    assert runs.newest(out).name == "step-00000011" and runs.records(out)[-1]["step"] == 11


def refused_for_room(done: subprocess.CompletedProcess[str], out: Path, reason: str) -> None:
    assert done.returncode == 2, done.stderr
    assert f"cannot be written ({reason}); make room" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr and not is_writing(out)


@pytest.mark.slow  # the next test has a disk that is full
def test_no_room_for_a_checkpoint(straight: Path, shapes: Path, tmp_path: Path, command: Command) -> None:
    """A limit on file sizes stands for a full disk. With room again, the same command ends as if nothing had been."""
    out = copy_of(straight, tmp_path)
    for path in sorted((out / "checkpoints").glob("step-*"))[-2:]:
        shutil.rmtree(path)
    line = [sys.executable, "-m", "mxtrain.fit", *flags(shapes, out, *RICH)]
    limited = ["bash", "-c", 'ulimit -f 100 && exec "$@"', "-", *line]
    done = subprocess.run(limited, cwd=ROOT, stderr=subprocess.PIPE, text=True, timeout=60)
    refused_for_room(done, out, "File too large")
    assert runs.newest(out).name == "step-00000022", "nothing lost before it"
    assert command("mxtrain.fit", *line[3:]).returncode == 0
    assert_same_end(out, straight)


@pytest.mark.system
def test_a_full_disk(straight: Path, shapes: Path, tmp_path: Path, command: Command) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)], check=True, timeout=20)
    try:
        line = flags(shapes, disk / "run", *RICH, "--keep-last", "99", "--checkpoint-steps", "1")
        refused_for_room(command("mxtrain.fit", *line), disk / "run", "No space left on device")
        assert list((disk / "run" / "checkpoints").glob("step-*")), "what was saved before is there"
        with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
            while filler.write(bytes(4096)):
                pass
        still_full = command("mxtrain.fit", *line)
        refused_for_room(still_full, disk / "run", "No space left on device")
        assert f"{disk}/run/config.yaml: cannot" in still_full.stderr, "the first that a resume writes"
        subprocess.run(["mount", "-o", "remount,size=99m", str(disk)], check=True, timeout=20)
        done = command("mxtrain.fit", *line)
        assert done.returncode == 0, done.stderr
        assert_same_end(disk / "run", straight)
    finally:
        subprocess.run(["umount", str(disk)], check=True, timeout=20)


@pytest.fixture(scope="module")
def some_bad(shapes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same data with three bad records."""
    folder = tmp_path_factory.mktemp("damaged")
    damaged_data.copy(shapes / "train.rec", folder / "train.rec", {7, 8, 30})
    damaged_data.copy(shapes / "val.rec", folder / "val.rec", set())
    return folder


def assert_kills_leave_no_trace(
    data: Path,
    tmp_path: Path,
    command: Command,
    more: list[str],
    num_kills: int,
    **options: Any,
) -> None:
    more = [*more, "--skip-bad", "3"]
    assert command("mxtrain.fit", *flags(data, tmp_path / "straight", *more)).returncode == 0
    line = flags(data, tmp_path / "run", *more, "--checkpoint-steps", "3")
    kill_again_and_again(tmp_path / "run", line, seed=sum(map(len, more)), num_kills=num_kills, **options)
    done = command("mxtrain.fit", *line)
    assert done.returncode == 0, done.stderr
    assert_same_end(tmp_path / "run", tmp_path / "straight")
    assert runs.records(tmp_path / "run", "train")[-1]["bad_records"] == 3
    bad = [
        [
            (each["step"], each["sample"], each["record"])
            for each in runs.records(out, "event")
            if each["event"] == "bad_record"
        ]
        for out in (tmp_path / "run", tmp_path / "straight")
    ]
    assert bad[0] == bad[1]
    assert len(bad[0]) == 3 and "train.rec: record" in bad[0][0][2], "each once, however often it was met"


@pytest.mark.slow  # test_killed_again_and_again has one thread
@pytest.mark.timeout(300)
def test_killed_with_two_threads_the_default_optimizer_and_damaged_records(
    some_bad: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other runs of the tests compute with one thread an operator, whose sums have other last bits."""
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")  # threads that wait leave the cores to other tests
    more = ["--lr", "0.05", "--threads", "2", "--log-level", "debug"]
    more += ["--batch-size", "12", "--micro-batch", "12", "--max-steps", "9"]  # an epoch is 6 steps
    steps = range(7, 8)
    assert_kills_leave_no_trace(some_bad, tmp_path, command, more, 1, steps=steps, start=started)
    logs = {name: (tmp_path / name / "logs" / "fit.log").read_text() for name in ("straight", "run")}
    assert all(" 2 OpenMP threads" in log for log in logs.values()) and "resuming from" in logs["run"]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("devices", ["cpu", "cpu:0,1"])
@pytest.mark.parametrize("amp", ["", pytest.param(BF16, marks=needs_bf16)])
@pytest.mark.parametrize(
    "recipe",
    [
        "--optimizer sgd --lr 0.05 --momentum 0.9 --cutmix 1",
        "--optimizer adam --lr 0.005 --mixup 0.2 --cutmix 0.5 --ema 0.99",
        "--optimizer lamb --lr 0.01 --augment resized_crop+flip+randaugment:n=2,m=9+erase --sampling balanced",
    ],
)
def test_the_matrix(
    some_bad: Path, tmp_path: Path, command: Command, recipe: str, amp: str, devices: str
) -> None:
    more = [*recipe.split(), *amp.split(), "--devices", devices]
    assert_kills_leave_no_trace(some_bad, tmp_path, command, more, num_kills=5)
