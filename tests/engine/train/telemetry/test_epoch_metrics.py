"""The records `epoch` and `system` of a run, which move none of its bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.config import Run
from mxtrain.fit import fit
from mxtrain.runtime import mx
from mxtrain.train.telemetry import epoch_metrics, system_metrics
from tests.support.runs import curve, newest, records

NUM_SAMPLES, WIDTH, HIDDEN, CLASSES = 64, 6, 16, 3
FLAGS = {
    "batch_size": 16,
    "epochs": 3,
    "threads": 1,
    "log": "none",
    "task": "arrays",
    "model": f"mlp:hidden={HIDDEN}",
}
FLOPS = 2 * (WIDTH * HIDDEN + HIDDEN * CLASSES)  # forward


def learnt(out: Path, net: Any = None, **flags: Any) -> Path:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(NUM_SAMPLES, WIDTH)).astype(np.float32)
    y = np.arange(NUM_SAMPLES) % CLASSES
    fit(Run.of(**{**FLAGS, **flags}, out=str(out)), train=(x, y), val=(x, y), net=net)
    return out


def test_an_epoch_tells_what_it_took(tmp_path: Path) -> None:
    out = learnt(tmp_path)
    epochs, steps = records(out, "epoch"), records(out, "train")
    assert [(each["step"], each["epoch"]) for each in epochs] == [(4, 1), (8, 2), (12, 3)]
    for each in epochs:
        own = [step["seconds"] for step in steps if step["epoch"] == each["epoch"]]
        assert each["samples"] == NUM_SAMPLES and each["seconds"] == pytest.approx(sum(own))
        assert each["flops_per_sample"] == FLOPS * 3 - 2 * WIDTH * HIDDEN  # the data needs no gradient
        assert each["flops_per_second"] == pytest.approx(each["flops_per_sample"] * 64 / each["seconds"])
        assert each["peak_rss_bytes"] > 50 << 20 and each["loader_workers"] >= 1
        assert "peak_flops_per_second" not in each  # it would take more than 1% of these epochs
        assert "peak_gpu_bytes" not in each
    weights = 4 * ((WIDTH + 1) * HIDDEN + (HIDDEN + 1) * CLASSES)
    (kinds,) = [each["memory_bytes"] for each in epochs if "memory_bytes" in each]  # told once
    assert list(kinds) == ["worker 0"] and kinds["worker 0"]["weights"] == weights
    assert {"program", "gradients", "activations"} < kinds["worker 0"].keys()


def test_looking_moves_no_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = learnt(tmp_path / "plain")
    monkeypatch.setattr(epoch_metrics, "PEAK_SECONDS", -1e9)
    monkeypatch.setattr(system_metrics, "START_SECONDS", 0.0)
    monkeypatch.setattr(system_metrics, "EVERY_SECONDS", 0.0)
    seen = learnt(tmp_path / "seen")
    peaks = [each["peak_flops_per_second"] for each in records(seen, "epoch")]
    assert peaks == sorted(peaks) and peaks[0] > 1e8  # the best of some
    assert records(seen, "system") and records(plain, "system") == []
    assert curve(seen) == curve(plain)
    assert (newest(seen) / "weights.params").read_bytes() == (newest(plain) / "weights.params").read_bytes()


def test_a_net_that_is_no_graph_tells_the_rest(tmp_path: Path) -> None:
    class Imperative(mx.gluon.Block):
        def __init__(self) -> None:
            super().__init__()
            self.dense = mx.gluon.nn.Dense(CLASSES)

        def forward(self, data: Any) -> Any:
            return self.dense(data)

    epochs = records(learnt(tmp_path, Imperative(), epochs=1), "epoch")
    assert len(epochs) == 1 and {"seconds", "peak_rss_bytes"} < epochs[0].keys()
    assert not any("flops" in name for name in epochs[0])


def test_memory_of_gpus_is_told_by_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what MXNet says of two: this machine may have none."""
    monkeypatch.setattr(mx.context, "gpu_memory_info", lambda index: (10 - index, 16))
    monkeypatch.setattr(epoch_metrics, "_is_gpu", lambda context: True)
    epochs = records(learnt(tmp_path, devices="cpu:0,1", epochs=1), "epoch")
    assert epochs[0]["peak_gpu_bytes"] == {"gpu:0": 6, "gpu:1": 7}


def test_what_cannot_be_found_stops_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise mx.base.MXNetError("out of memory")

    monkeypatch.setattr(epoch_metrics, "PEAK_SECONDS", -1e9)
    monkeypatch.setattr(epoch_metrics.peak_flops, "measure", fail)
    last = records(learnt(tmp_path / "without peak"), "epoch")[-1]
    assert "flops_per_second" in last and "peak_flops_per_second" not in last
    monkeypatch.setattr(epoch_metrics.flops, "of_net", fail)
    last = records(learnt(tmp_path / "without count"), "epoch")[-1]
    assert last["samples"] == NUM_SAMPLES and "flops_per_second" not in last
