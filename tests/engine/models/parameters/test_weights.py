"""Weights that are put into a net which has computed, whatever layout oneDNN has given them since."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.config import Run
from mxtrain.evaluate import evaluate
from mxtrain.fit import fit
from mxtrain.models.parameters import weights
from mxtrain.runtime import mx


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_a_convolution_that_has_computed_takes_other_weights(tmp_path: Path, dimensions: int) -> None:
    """oneDNN keeps 16 and 32 channels in blocks, into which MXNet copies no weights of Conv1D and Conv3D."""
    layer = getattr(mx.gluon.nn, f"Conv{dimensions}D")(32, 3, padding=1)
    layer.initialize()
    data = mx.nd.random.normal(shape=(2, 16, *[6] * dimensions))
    first = layer(data).asnumpy()
    values = np.random.default_rng(0).normal(size=layer.weight.shape).astype(np.float32)
    values.flat[:2] = -0.0, 1e-40  # kept to the bit
    bias = mx.nd.array(np.arange(32))
    mx.nd.save(str(tmp_path / "w.params"), {"weight": mx.nd.array(values), "bias": bias})
    weights.load(layer, str(tmp_path / "w.params"))
    assert layer.weight.data().asnumpy().tobytes() == values.tobytes()
    numbers = {"kernel": (3,) * dimensions, "pad": (1,) * dimensions, "num_filter": 32}
    expected = mx.nd.Convolution(data, mx.nd.array(values), bias, **numbers).asnumpy()
    for _ in range(2):  # the first call lays the new weights out again
        np.testing.assert_array_equal(layer(data).asnumpy(), expected)
    assert np.abs(expected - first).max() > 1


class Convolutions(mx.gluon.HybridBlock):
    """A net of one's own for pictures, of a convolution over their rows."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        with self.name_scope():
            self.body = mx.gluon.nn.HybridSequential()
            self.body.add(
                mx.gluon.nn.Conv1D(32, 3), mx.gluon.nn.Conv1D(16, 3), mx.gluon.nn.Dense(num_classes)
            )

    def hybrid_forward(self, F: Any, pictures: Any) -> Any:
        return self.body(F.reshape(pictures, shape=(0, -3, 0)))


def test_a_net_of_such_convolutions_trains_on_two_devices_and_is_evaluated(tmp_path: Path) -> None:
    """It has computed a sample before its weights go to further devices, to --ema and into a checkpoint."""
    rng = np.random.default_rng(0)
    data = rng.integers(0, 256, (16, 16, 16, 3), np.uint8), np.arange(16) % 2
    run = Run.of(
        batch_size=8, devices="cpu:0,1", epochs=2, ema=0.5, lr=0.01, image_size=16, out=str(tmp_path)
    )
    result = fit(run, train=data, val=data, net=Convolutions)
    assert evaluate(result, val=data)["val_loss"] == result.history[-1]["val_loss"]
