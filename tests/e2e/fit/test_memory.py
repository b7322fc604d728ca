"""Runs that their host has no room for are refused, and those that it has take what the arithmetic says."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support import process_tree
from tests.support.commands import ROOT, Command
from tests.support.data.token_data import write_tokens

HUGE = "gpt:layers=40,heads=64,width=16384"  # 2 TB of weights, gradients, totals and adam's state
SMALL = "gpt_50m"  # 198 MB of weights; a net with numbers behind its name is tried first, which takes more
WINDOW, DEADLINE = 64, 120.0
NEAR = 0.15
LM = f"--task lm --window {WINDOW} --optimizer adam --batch-size 4 --micro-batch 1 --max-steps 1"


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(write_tokens(tmp_path_factory.mktemp("tokens") / "t.rec", [[1, 2, 3] * 200] * 2))


def test_a_run_without_room_is_refused_before_its_first_step(
    windows: Path, tmp_path: Path, command: Command
) -> None:
    out = tmp_path / "run"
    done = command("mxtrain.fit", *LM.split(), "--train", windows, "--model", HUGE, "--out", out)
    assert done.returncode == 2, done.stderr
    assert re.search(
        r"--model gpt:layers=40.* take [\d,]+ MB on this host, which has [\d,]+ MB left; ", done.stderr
    )
    assert not (out / "metrics.jsonl").exists() and not list(out.glob("checkpoints/*"))


@pytest.mark.slow
def test_workers_and_servers_without_room_are_refused_together(
    windows: Path, tmp_path: Path, command: Command
) -> None:
    flags = [*LM.split(), "--train", windows, "--model", HUGE, "--out", tmp_path / "run"]
    done = command("mxtrain.fit", *flags, "--kvstore", "dist_sync", "--num-workers", "2")
    assert done.returncode == 2 and "MB on this host" in done.stdout + done.stderr, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.timeout(3 * DEADLINE)
@pytest.mark.parametrize(
    "flags",
    [
        "",
        "--remat",
        "--kvstore allreduce --num-workers 2",
        "--kvstore dist_sync --num-workers 2",
        "--kvstore dist_sync --num-workers 2 --update servers",
    ],
)
def test_processes_take_what_the_arithmetic_says(
    flags: str, windows: Path, tmp_path: Path, command: Command
) -> None:
    given = [*LM.split(), "--train", str(windows), "--model", SMALL, *flags.split()]
    told = command("mxtrain.fit", *given, "--dry-run", "--out", tmp_path / "none")
    assert told.returncode == 0, told.stderr
    (row,) = (line for line in told.stdout.splitlines() if line.endswith("as it is"))
    numbers = [float(each.replace(",", "")) for each in row.split()[:3]]
    peaks = peaks_of([*given, "--out", str(tmp_path / "run")])
    workers = sorted((each for name, each in peaks.items() if name.startswith("worker")), reverse=True)
    assert near(workers[0], numbers[0] + 220), (workers, row)
    if "dist_sync" in flags:
        assert near(workers[1], numbers[1] + 220), (workers, row)
        assert near(peaks["server-0"], numbers[2] + 170, 2 * NEAR), (peaks, row)


def near(measured: float, expected: float, share: float = NEAR) -> bool:
    return abs(measured - expected) < share * measured


def peaks_of(flags: list[str]) -> dict[str, float]:
    """The most MB that each process of a run had in memory, by its role."""
    peaks: dict[str, float] = {}
    with subprocess.Popen([sys.executable, "-m", "mxtrain.fit", *flags], cwd=ROOT) as process:
        deadline = time.monotonic() + DEADLINE
        while process.poll() is None and time.monotonic() < deadline:
            for name, pid in (process_tree.roles(process.pid) or {"worker": process.pid}).items():
                with contextlib.suppress(OSError):  # it has just ended
                    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
                    if found:
                        peaks[name] = int(found[1]) * 1024 / 1e6
            time.sleep(0.05)
        process.kill()
    assert process.returncode == 0
    return peaks
