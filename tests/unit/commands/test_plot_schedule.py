"""`--plot-schedule` draws, says what, and needs neither mxnet nor a run folder."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import cv2
import numpy as np
import pytest

from mxtrain import config, fit
from mxtrain.data.loading.run_plan import RunLength
from mxtrain.data.records.record_writer import RecordWriter
from mxtrain.optim import schedules
from mxtrain.report.page import plots
from tests.support.breadth import slow_cases

ROOT = Path(__file__).resolve().parents[3]


def pixels(path: Path) -> np.ndarray:
    picture = cv2.imread(str(path))
    assert picture is not None
    return picture


def test_the_picture_follows_the_rates(tmp_path: Path) -> None:
    pictures = []
    for name, rates in {"flat": [1.0] * 50, "fall": [1 - step / 50 for step in range(50)]}.items():
        plots.draw_rates(tmp_path / f"{name}.png", range(50), rates, 10, "a title " * 40)
        pictures.append(pixels(tmp_path / f"{name}.png"))
    assert pictures[0].shape == pictures[1].shape and pictures[0].shape[1] > 1000
    blue = [(picture[:, :, 0] > picture[:, :, 2].astype(int) + 80).any(axis=1) for picture in pictures]
    assert 0 < blue[0].sum() < 40, "a flat line in each panel takes few rows"
    assert blue[1].sum() > 300, "a falling one many"


@pytest.mark.parametrize("rates", [[1e-9, 1e3], *slow_cases([0.5], [0.0, 0.0])])
def test_odd_runs_are_drawn_too(tmp_path: Path, rates: list[float]) -> None:
    plots.draw_rates(tmp_path / "odd.png", range(len(rates)), rates, 0.5, "odd")
    assert pixels(tmp_path / "odd.png").size


def draw(
    *arguments: object, without: tuple[str, ...] = ("mxnet", "gluoncv")
) -> subprocess.CompletedProcess[str]:
    hide = "".join(f"sys.modules[{name!r}] = None; " for name in without)
    code = f"import sys; {hide}from mxtrain import fit; raise SystemExit(fit.main({list(map(str, arguments))!r}))"
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=str(ROOT)
    )


def test_max_steps_stand_in_for_the_data(tmp_path: Path) -> None:
    arguments = ["--max-steps", 900, "--epochs", 90, "--lr-base-batch", 32, "--warmup-epochs", 5]
    done = draw(*arguments, "--plot-schedule", tmp_path / "rate.png", "--out", tmp_path / "run")
    assert (done.returncode, done.stderr) == (0, "")
    assert "peak 0.2 (--lr 0.1 x 64 / 32), 50 steps of warm-up, then cosine over 900 steps" in done.stdout
    assert pixels(tmp_path / "rate.png").size
    assert not (tmp_path / "run").exists()


def test_the_longest_run_is_drawn_as_fast(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--max-steps", 10**9, "--epochs", 1000, "--warmup-epochs", 5]
    began = time.monotonic()
    assert fit.main([*map(str, arguments), "--plot-schedule", str(tmp_path / "rate.png")]) == 0
    assert capsys.readouterr().err == "" and time.monotonic() - began < 30
    assert pixels(tmp_path / "rate.png").size


@pytest.mark.parametrize(
    ("num_steps", "num_warmup_steps"),
    [(1, 0), (2, 1), (900, 50), (2001, 1), (10**9, 0), (10**9, 1), (10**9, 10**8 + 3), (10, 90)],
)
def test_the_steps_that_are_drawn(num_steps: int, num_warmup_steps: int) -> None:
    optim = config.parse(["--warmup-epochs", str(num_warmup_steps)]).optim
    steps = schedules.plotted_steps(optim, RunLength(1, num_steps))
    assert steps == sorted(set(steps)) and steps[0] == 0 and steps[-1] == num_steps - 1
    assert len(steps) <= 4 * schedules.MAX_PLOTTED_PARTS
    widest = max(np.diff([-1, *steps]))
    assert widest <= num_steps / schedules.MAX_PLOTTED_PARTS + 1
    if num_steps <= schedules.MAX_PLOTTED_PARTS:
        assert steps == list(range(num_steps))
    bend = {step for step in (num_warmup_steps - 1, num_warmup_steps) if 0 <= step < num_steps}
    assert bend <= set(steps), "where the warm-up ends"


def test_the_data_say_how_long_an_epoch_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with RecordWriter(tmp_path / "train.rec") as writer:
        for key in range(90):
            writer.write(key, 0.0, b"not looked at")
    flags = ["--batch-size", "20", "--epochs", "8", "--schedule", "step:every=3"]
    train, picture = str(tmp_path / "train.rec"), str(tmp_path / "rate.png")
    assert fit.main(["--train", train, *flags, "--plot-schedule", picture]) == 0
    stdout, stderr = capsys.readouterr()
    assert stderr == "" and "step:every=3 over 40 steps" in stdout and pixels(tmp_path / "rate.png").size


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["--train"]),
        (["--max-steps", "10", "--schedule", "cosin"], ["--schedule cosin", "cosine"]),
        (["--max-steps", "10", "--plot-schedule", "rate"], ["--plot-schedule 'rate'", ".png"]),
        (["--max-steps", "10", "--plot-schedule", "/no/such/folder/rate.png"], ["/no/such/folder/rate.png"]),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: list[str]
) -> None:
    assert fit.main(["--plot-schedule", str(tmp_path / "rate.png"), *arguments]) == 2
    line = capsys.readouterr().err
    assert all(word in line for word in words) and line.count("\n") == 1


def test_the_data_are_not_drawn_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rec = tmp_path / "train.rec"
    with RecordWriter(rec) as writer:
        writer.write(0, 0.0, b"not looked at")
    before = rec.read_bytes()
    assert fit.main(["--train", str(rec), "--plot-schedule", str(rec)]) == 2
    assert rec.read_bytes() == before
    assert "--plot-schedule" in capsys.readouterr().err


def test_without_matplotlib_the_extra_is_named(tmp_path: Path) -> None:
    done = draw("--max-steps", 10, "--plot-schedule", tmp_path / "rate.png", without=("matplotlib",))
    assert done.returncode == 2 and "pip install 'mxtrain[report]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1
