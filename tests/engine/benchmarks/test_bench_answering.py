"""The comparison of answers: mxtrain's processes and ONNX Runtime's answer alike, from the same weights."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.answering.__main__ import ANSWERS, BEGUN, FROZEN, IN_TRAINING, ONNX, answers_row, training_row
from benchmarks.step.sides import CHANNELS_LAST, COMPILED, PLAIN, Side
from tests.support.breadth import slow_cases


@pytest.mark.parametrize(
    "net",
    ["small", *slow_cases("small_gpt", "small_lstm", "small_text")],
)
def test_all_sides_answer_alike(net: str, tmp_path: Path) -> None:
    answers = []
    for kind in (ANSWERS, IN_TRAINING, BEGUN, ONNX):
        line = [sys.executable, "-m", "benchmarks.answering.mxnet_side", net, 3, kind, tmp_path / "w.npz"]
        with Side(line, {"OMP_WAIT_POLICY": "passive"}) as side:  # beside other tests
            side.measure()
            answers.append(side.losses[-1])
    assert answers[:3] == [answers[0]] * 3 and answers[3] == pytest.approx(answers[0], rel=1e-4)
    assert answers[0] > 0


def test_evaluations_in_training_are_held_against_weights_that_may_change() -> None:
    rates = {ANSWERS: 30.0, IN_TRAINING: 20.0, BEGUN: 5.0, ONNX: 25.0, FROZEN: 24.0, PLAIN: 10.0}
    rates.update({CHANNELS_LAST: 16.0, COMPILED: 10.0})
    assert answers_row(rates) == (["30.0", f"24.0 {FROZEN}", "25.0"], [1.25, 1.2])
    assert training_row(rates) == (["20.0", "24.0", f"16.0 {CHANNELS_LAST}", "25.0"], [1.25, 0.8])
