"""Runs of every task, and with what training does to a net, exported and compared: slow.

Their nets are held as ONNX by test_onnx_nets.py, and a run of pictures by test_export.py, by fast tests.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.config import Run
from mxtrain.core.errors import UsageError
from mxtrain.export import export
from mxtrain.fit import fit
from mxtrain.train.library.result import Result
from tests.support.amp import needs_bf16

pytestmark = pytest.mark.slow
pytest.importorskip("onnxruntime")

COUNT = 24
USUAL: dict[str, Any] = {"batch_size": 8, "epochs": 1, "log": "none", "lr": 0.01}
OF_PICTURES: dict[str, Any] = {**USUAL, "image_size": 16, "model": "small_cnn"}
OF_TEXTS: dict[str, Any] = {**USUAL, "task": "sequence_classification", "window": 32}
RNG = np.random.default_rng(0)
PICTURES, CLASSES = RNG.integers(0, 255, (COUNT, 16, 16, 3), dtype=np.uint8), np.arange(COUNT) % 3
SERIES, ROWS = RNG.normal(size=(COUNT, 8, 3)).astype("f"), RNG.normal(size=(COUNT, 6)).astype("f")
NUMBERS, LABELS = RNG.normal(size=(COUNT, 2)).astype("f"), (RNG.random((COUNT, 4)) > 0.5).astype("f")
VARYING = [(SERIES[number][: 3 + number % 5], int(CLASSES[number])) for number in range(COUNT)]
TEXTS = [("the cat sat", "a dog ran over the hill", "birds fly")[number % 3] for number in range(COUNT)]
OF_CLASSES = list(zip(TEXTS, CLASSES.tolist()))

RUNS: dict[str, tuple[dict[str, Any], Any]] = {
    "bf16 with averages": ({**OF_PICTURES, "amp": "bf16", "ema": 0.9}, (PICTURES, CLASSES)),
    "two devices": ({**OF_PICTURES, "devices": "cpu:0,1", "micro_batch": 4}, (PICTURES, CLASSES)),
    "remat": ({**OF_PICTURES, "model": "cifar_resnet20_v1", "remat": True}, (PICTURES, CLASSES)),
    "grey": ({**OF_PICTURES, "channels": 1}, (PICTURES, CLASSES)),
    "multilabel": ({**OF_PICTURES, "task": "multilabel"}, (PICTURES, LABELS)),
    "regression": ({**OF_PICTURES, "task": "regression"}, (PICTURES, NUMBERS)),
    "mlp": ({**USUAL, "task": "arrays", "model": "mlp:hidden=8"}, (ROWS, CLASSES)),
    "mlp of numbers": ({**USUAL, "task": "arrays", "model": "mlp:hidden=8"}, (ROWS, NUMBERS)),
    "conv1d": ({**USUAL, "task": "arrays", "model": "conv1d:channels=4"}, (SERIES, CLASSES)),
    "lstm": ({**USUAL, "task": "arrays", "model": "lstm:hidden=4"}, VARYING),
    "gpt": ({**USUAL, "task": "lm", "model": "gpt_1m:layers=1,width=16,heads=2", "window": 16}, TEXTS),
    "bilstm": ({**OF_TEXTS, "model": "bilstm:width=8,hidden=8"}, OF_CLASSES),
    "text_cnn": ({**OF_TEXTS, "model": "text_cnn:width=8"}, OF_CLASSES),
    "transformer": ({**OF_TEXTS, "model": "transformer:width=8,heads=2,layers=1"}, OF_CLASSES),
}


def trained(name: str, out: Path) -> Result:
    flags, samples = RUNS[name]
    return fit(Run.of(out=str(out), **flags), train=samples, val=samples)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=needs_bf16 if "amp" in RUNS[name][0] else ()) for name in RUNS]
)
def test_a_run_is_exported_as_both(name: str, tmp_path: Path) -> None:
    result = trained(name, tmp_path / "run")
    symbol = export(result, to="symbol")
    assert symbol.differences.relative < 1e-6
    onnx = export(result, to="onnx", dynamic_batch=True)
    assert onnx.differences.relative < 1e-5
    assert onnx.differences.samples >= COUNT - 1
    if "image_size" in RUNS[name][0]:
        assert export(result, to="onnx", from_pixels=True).differences.relative < 1e-5
    else:
        with pytest.raises(UsageError, match=r"--from-pixels: --task .* has no pictures"):
            export(result, to="onnx", from_pixels=True)


@needs_bf16
def test_averages_are_what_is_exported(tmp_path: Path) -> None:
    """Its symbol has the bits of the checkpoint's averages, not those of its weights."""
    from mxtrain.runtime import mx

    result = trained("bf16 with averages", tmp_path / "run")
    made = export(result, to="symbol")
    written = mx.nd.load(str(made.folder / "net-0000.params"))
    averages, weights = (
        mx.nd.load(str(result.checkpoint / name)) for name in ("ema.params", "weights.params")
    )
    (dense,) = (array.asnumpy() for name, array in written.items() if name.endswith("dense0_weight"))
    known = {tuple(array.shape): array.asnumpy() for array in averages.values()}
    np.testing.assert_array_equal(dense, known[dense.shape])
    others = {tuple(array.shape): array.asnumpy() for array in weights.values()}
    assert not np.array_equal(dense, others[dense.shape])
    assert json.loads((made.folder / "export.json").read_text())["step"] == 3
