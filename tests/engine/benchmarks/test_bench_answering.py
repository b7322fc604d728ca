"""The comparison of answers: mxtrain's and ONNX Runtime's process answer alike, from the same weights."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.step.sides import Side


def test_both_sides_answer_alike(tmp_path: Path) -> None:
    answers = []
    for kind in ("mxtrain", "onnxruntime"):
        line = [sys.executable, "-m", "benchmarks.answering.mxnet_side", "small", 3, kind, tmp_path / "w.npz"]
        with Side(line, {}) as side:
            side.measure()
            answers.append(side.losses[-1])
    assert answers[0] == pytest.approx(answers[1], rel=1e-4)
    assert answers[0] > 0
