"""Curves are read whole, compared step by step, and not the same when one step is not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import curves
from benchmarks.curves import Panel
from benchmarks.same_curve.__main__ import MAPPINGS, ROUNDING, WHOLE, table

ROOT = Path(__file__).resolve().parents[3]


def write(out: Path, steps: list[int]) -> Path:
    out.mkdir()
    records = [{"kind": "train", "step": step, "loss": 1 / step} for step in steps]
    lines = [json.dumps(record) for record in [*records, {"kind": "eval", "step": 2, "val_accuracy": 0.5}]]
    (out / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    return out


def test_losses_are_those_of_the_steps(tmp_path: Path) -> None:
    assert curves.losses(write(tmp_path / "run", [1, 2])).tolist() == [1.0, 0.5]


@pytest.mark.parametrize("steps", [[1, 3], [1, 1, 2], [2, 3]])
def test_a_step_that_is_missing_or_doubled_is_refused(steps: list[int], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="its steps are not 1 to"):
        curves.losses(write(tmp_path / "run", steps))


def test_the_difference_is_relative_to_the_reference() -> None:
    apart = curves.relative_difference(np.array([2.0, 3.0]), np.array([4.0, -3.0]))
    assert apart.tolist() == [0.5, 2.0]


@pytest.mark.parametrize("num_steps", [0, 2])
def test_curves_of_other_lengths_are_refused(num_steps: int) -> None:
    with pytest.raises(ValueError, match=f"curves of 3 and {num_steps} steps"):
        curves.relative_difference(np.ones(3), np.ones(num_steps))


@pytest.mark.parametrize(
    ("name", "last_loss", "same"),
    [
        *((name, 1.0, True) for name in ("4 devices", WHOLE)),
        *(("4 devices", 1 + 2.0**-52, False), ("4 devices", float("nan"), False)),
        *((WHOLE, 1 + ROUNDING / 2, True), (WHOLE, 1 + 2 * ROUNDING, False), (WHOLE, float("nan"), False)),
    ],
)
def test_one_bit_of_one_run_decides_but_where_a_run_has_another_bar(
    name: str, last_loss: float, same: bool
) -> None:
    runs = {each: np.ones(5) for each in (*MAPPINGS, WHOLE)}
    runs[name] = np.array([1, 1, 1, 1, last_loss])
    bars = {WHOLE: ROUNDING}
    panels = [
        Panel("plain", runs, 0.0, bars=bars),
        Panel("with both", {each: np.ones(5) for each in MAPPINGS}),
    ]
    text, all_same = table(panels)
    assert all_same == same
    assert text.count("| met |") == 2 * len(MAPPINGS) - 1 - (not same)
    assert ("MISSED" in text) != same and f"| plain: {name} |" in text


@pytest.mark.parametrize("benchmark", ["same_curve", "learn"])
def test_a_picture_that_cannot_be_one_is_refused_before_the_runs(benchmark: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", f"benchmarks.{benchmark}", "--png", str(tmp_path / "curves.rec")]
    done = subprocess.run(command, cwd=str(ROOT), capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "does not end in .png" in done.stderr


@pytest.mark.slow
def test_the_picture_has_a_column_for_each_panel(tmp_path: Path) -> None:
    import cv2

    noise = np.random.default_rng(0).random(30)
    panel = Panel("a net", {"one": noise + 1, "other": noise + 1 + 1e-6}, 0.0, smooth=3)
    widths = []
    for number in (1, 2):
        curves.draw(tmp_path / "new" / f"{number}.png", [panel] * number)
        image = cv2.imread(str(tmp_path / "new" / f"{number}.png"))
        assert len(np.unique(image.reshape(-1, 3), axis=0)) > 20
        widths.append(image.shape[1])
    assert widths[1] > 1.7 * widths[0]
