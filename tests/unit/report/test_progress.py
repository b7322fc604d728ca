"""Progress on real terminals and in real pipes: as wide as a terminal is, also one that says it is 0 wide."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import cv2
import numpy as np
import pytest

from mxtrain.report.progress import ProgressDisplay

ROOT = Path(__file__).resolve().parents[3]
TRAINS = """
import sys, time
from mxtrain.report.writers import Console
console = Console(num_steps=40, first_step=0, every_seconds=0.5)
for step in range(1, 41):
    time.sleep(0.05)
    console.write({"kind": "train", "step": step, "epoch": 1 + (step > 20), "loss": 0.5, "lr": 0.1})
    if step % 20 == 0:
        console.write({"kind": "eval", "step": step, "epoch": step // 20, "val_accuracy": 0.75})
console.close()
"""
EVERYWHERE = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}


def on_terminal(columns: int, *line: str, **more: str) -> str:
    """What the command shows on a terminal that says it is so wide."""
    leader, follower = os.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("4H", 0, columns, 0, 0))
    environment = {**EVERYWHERE, **more}
    with subprocess.Popen(
        line, stdin=follower, stdout=follower, stderr=follower, cwd=ROOT, env=environment
    ) as run:
        os.close(follower)
        shown, deadline = b"", time.monotonic() + 60
        try:
            while time.monotonic() < deadline:
                shown += os.read(leader, 1 << 16)
        except OSError:  # all of its ends are closed
            pass
        finally:
            run.kill()
            os.close(leader)
    return shown.decode()


def widest(shown: str) -> int:
    return max(len(re.sub(r"\x1b\[\w", "", line)) for line in re.split(r"[\r\n]+", shown))


@pytest.mark.parametrize(
    ("columns", "more", "width"), [(0, {}, 80), (0, {"COLUMNS": "60"}, 60), (50, {}, 50)]
)
def test_a_terminal_has_a_bar_whatever_width_it_says(columns: int, more: dict[str, str], width: int) -> None:
    shown = on_terminal(columns, sys.executable, "-c", TRAINS, **more)
    assert "40/40" in shown and "loss 0.5" in shown and "epoch 2: val_accuracy 0.75" in shown
    assert "\r" in shown.replace("\r\n", "")
    assert widest(shown) == width


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    for name in ("ape", "bee"):
        (tmp_path / "in" / name).mkdir(parents=True)
        for number in range(4):
            cv2.imwrite(str(tmp_path / "in" / name / f"{number}.png"), np.full((5, 6, 3), 99, np.uint8))
    return tmp_path / "in"


def test_packing_has_a_bar_too(pictures: Path, tmp_path: Path) -> None:
    pack = [sys.executable, "-m", "tools.im2rec_wrapper", "pack", str(pictures), str(tmp_path / "out.rec")]
    shown = on_terminal(0, *pack)
    assert "8/8" in shown and widest(shown.split("8/8")[0]) <= 80


def test_a_pipe_has_plain_lines_with_the_time_that_is_left() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TRAINS], cwd=ROOT, stderr=subprocess.PIPE, timeout=60, env=EVERYWHERE
    )
    shown = done.stderr.decode()
    assert "\r" not in shown and "\x1b" not in shown
    lines = shown.splitlines()
    assert lines[0] == "epoch 1 step 1/40: loss 0.5, lr 0.1"
    assert re.fullmatch(
        r"epoch 2 step 21/40: loss 0\.5, lr 0\.1, 0:00:\d\d left",
        lines[lines.index("epoch 1: val_accuracy 0.75") + 1],
    )
    assert lines[-2:] == ["epoch 2 step 40/40: loss 0.5, lr 0.1", "epoch 2: val_accuracy 0.75"]
    assert 6 <= len(lines) <= 9


def test_no_time_is_left_at_the_end_nor_known_at_the_beginning(capsys: pytest.CaptureFixture[str]) -> None:
    progress = ProgressDisplay(sys.stderr, total=3600, done=100)
    for done in (101, 102, 3600):
        progress.update(done, f"{done} done", every_seconds=0)
        time.sleep(0.05)
    first, middle, last = capsys.readouterr().err.splitlines()
    assert (first, last) == ("101 done", "3600 done")
    assert re.fullmatch(r"102 done, 0:\d\d:\d\d left", middle)


def test_packing_goes_on_where_the_reader_of_its_lines_has_gone(pictures: Path, tmp_path: Path) -> None:
    """With 0: Python 3.14 would end with 120 for what nobody reads."""
    code = (
        "import sys; from mxtrain.report import progress; progress.LINE_SECONDS = 0.0\n"
        "from tools.im2rec_wrapper.__main__ import main; raise SystemExit(main(sys.argv[1:]))"
    )
    reader, writer = os.pipe()
    os.close(reader)
    line = [sys.executable, "-c", code, "pack", str(pictures), str(tmp_path / "out.rec")]
    done = subprocess.run(line, cwd=ROOT, stdout=subprocess.PIPE, stderr=writer, timeout=60)
    os.close(writer)
    assert done.returncode == 0 and (tmp_path / "out.rec").stat().st_size > 0
