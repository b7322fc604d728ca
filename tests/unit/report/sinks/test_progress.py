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

from mxtrain.report.sinks.progress import ProgressDisplay, fitted

ROOT = Path(__file__).resolve().parents[4]
TRAINS = """
import sys, time
from mxtrain.report.sinks.console import Console
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
    """Return what the command shows on a terminal that says it is so wide."""
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
    ("columns", "more", "width"), [(0, {}, 80), (0, {"COLUMNS": "60"}, 60), (40, {}, 40)]
)
def test_a_terminal_has_a_live_line_whatever_width_it_says(
    columns: int, more: dict[str, str], width: int
) -> None:
    shown = on_terminal(columns, sys.executable, "-c", TRAINS, **more)
    assert "40/40" in shown and "loss 0.5" in shown and "epoch 2: val_accuracy 0.75" in shown
    assert "\r" in shown.replace("\r\n", "")
    assert width - 12 < widest(shown) < width, "in the last column some terminals begin a new line"


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
        "import sys; from mxtrain.report.sinks import progress; progress.LINE_SECONDS = 0.0\n"
        "from tools.im2rec_wrapper.__main__ import main; raise SystemExit(main(sys.argv[1:]))"
    )
    reader, writer = os.pipe()
    os.close(reader)
    line = [sys.executable, "-c", code, "pack", str(pictures), str(tmp_path / "out.rec")]
    done = subprocess.run(line, cwd=ROOT, stdout=subprocess.PIPE, stderr=writer, timeout=60)
    os.close(writer)
    assert done.returncode == 0 and (tmp_path / "out.rec").stat().st_size > 0


def test_what_matters_least_goes_first() -> None:
    beside = ("loss 0.42", "812 images/s", "data 3%", "lr 0.05")
    told = [
        fitted(width, 0.5, "epoch 1/3", "step 5/10", beside, "0:00:09 left", "#.")
        for width in (100, 78, 60, 40, 22, 6)
    ]
    assert told == [
        "epoch 1/3  step 5/10  loss 0.42  812 images/s  data 3%  lr 0.05  0:00:09 left  ##########...........",
        "epoch 1/3  step 5/10  loss 0.42  812 images/s  data 3%  lr 0.05  0:00:09 left",
        "epoch 1/3  step 5/10  loss 0.42  812 images/s  0:00:09 left",
        "step 5/10  loss 0.42  0:00:09 left",
        "step 5/10  #####......",
        "step 5",
    ]


def test_a_log_line_comes_out_above_the_live_line() -> None:
    code = (
        "import logging, sys; from mxtrain.checkpoint import run_folder; from mxtrain.report.sinks.progress import *\n"
        "run_folder.start_log('info')\n"
        "outer = ProgressDisplay(sys.stderr, 10, label='outer'); outer.update(1, '')\n"
        "logging.getLogger('mxtrain.x').info('a remark')\n"
        "inner = ProgressDisplay(sys.stderr, 10, label='inner'); inner.update(10, '')\n"
        "inner.close(stays=False); outer.close()\n"
    )
    shown = on_terminal(80, sys.executable, "-c", code)
    assert "\x1b[Ja remark\r\n\r\x1b[Jouter" in shown
    assert shown.index("inner  step 10/10") < shown.rindex("outer  step 1/10")
    assert shown.endswith("\r\n") and shown.count("\r\n") == 2


@pytest.mark.parametrize("more", [{"TERM": "dumb"}, {"TERM": "dumb", "NO_COLOR": "1"}])
def test_a_terminal_that_can_do_nothing_has_plain_lines(more: dict[str, str]) -> None:
    code = (
        "import sys; from mxtrain.report.sinks.progress import ProgressDisplay; "
        "ProgressDisplay(sys.stderr, 9).update(1, 'one', (), 0.0)"
    )
    assert on_terminal(80, sys.executable, "-c", code, **more) == "one\r\n"


def test_a_terminal_that_becomes_narrower_keeps_the_lines_above() -> None:
    code = (
        "import fcntl, struct, sys, termios; from mxtrain.report.sinks.progress import *\n"
        "display = ProgressDisplay(sys.stderr, 10, label='x' * 50)\n"
        "fcntl.ioctl(2, termios.TIOCSWINSZ, struct.pack('4H', 24, 30, 0, 0))\n"
        "display.update(10, ''); display.close()\n"
    )
    shown = on_terminal(80, sys.executable, "-c", code)
    assert "\x1b[2A\r\x1b[Jstep 10/10" in shown, "of 79 columns 3 lines of 30"


def test_a_forked_process_neither_draws_nor_waits_for_the_line() -> None:
    """A thread that was printing when it was forked, as the one that writes checkpoints, is not there to end that."""
    code = (
        "import os, sys, threading; from mxtrain.report.sinks import progress\n"
        "display = progress.ProgressDisplay(sys.stderr, 10, label='mine')\n"
        "printing = threading.Event()\n"
        "def hold():\n"
        "    with progress.hidden(): printing.set(); threading.Event().wait()\n"
        "threading.Thread(target=hold, daemon=True).start()\n"
        "printing.wait()\n"
        "if os.fork() == 0:\n"
        "    with progress.hidden(): print('a loader', file=sys.stderr, flush=True)\n"
        "    os._exit(0)\n"
        "os._exit(os.wait()[1])\n"
    )
    shown = on_terminal(80, sys.executable, "-W", "ignore", "-c", code)
    assert shown.endswith("\r\x1b[Ja loader\r\n") and shown.count("mine") == 1
