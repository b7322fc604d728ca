"""An evaluation of a net some of whose answers are no numbers says so: its accuracy alone would not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.config import Run
from mxtrain.evaluate import evaluate
from mxtrain.fit import fit
from mxtrain.runtime import mx


class Logarithms(mx.gluon.HybridBlock):
    """No numbers for inputs below zero."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = mx.gluon.nn.Dense(2)

    def hybrid_forward(self, F: Any, data: Any) -> Any:
        return self.scores(data) + F.log(F.min(data, axis=1, keepdims=True))


@pytest.mark.parametrize("lowest", [1.0, -1.0])
def test_an_evaluation_says_that_answers_are_no_numbers(
    tmp_path: Path, lowest: float, caplog: pytest.LogCaptureFixture
) -> None:
    data = np.random.default_rng(0).uniform(1, 2, (32, 3)).astype(np.float32)
    label = np.arange(32) % 2
    run = Run.of(task="arrays", epochs=1, batch_size=16, lr=0.01, threads=1, log="none", out=str(tmp_path))

    class Unstandardised(Logarithms):
        def hybrid_forward(self, F: Any, data: Any) -> Any:
            return super().hybrid_forward(F, data + 10)  # inputs are standardised

    ended = fit(run, train=(data, label), net=Unstandardised())
    other = data.copy()
    other[:4] = -100 if lowest < 0 else lowest
    caplog.clear()
    numbers = evaluate(ended, val=(other, label))
    is_said = any("some answers of the net are none" in message for message in caplog.messages)
    assert is_said == (lowest < 0) == (not np.isfinite(numbers["val_loss"]))
